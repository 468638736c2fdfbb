//! Points in time and durations as people read and write them. All in UTC.

/// Milliseconds of a day.
const DAY: u64 = 86_400_000;

/// A point in time, given in milliseconds since the Unix epoch, as RFC 3339 to the millisecond.
pub(crate) fn rfc3339(wall: u64) -> String {
    let (date, time) = split(wall);
    format!("{date}T{time}Z")
}

/// The same for a sentence: `2026-12-01 at 04:00:00 UTC`.
pub(crate) fn in_words(wall: u64) -> String {
    let (date, time) = split(wall);
    format!("{date} at {} UTC", time.get(..8).unwrap_or(&time))
}

fn split(wall: u64) -> (String, String) {
    let (year, month, day) = civil(wall / DAY);
    let of_day = wall % DAY;
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, millis) = (of_day / 1000 % 60, of_day % 1000);
    (format!("{year:04}-{month:02}-{day:02}"), format!("{hour:02}:{minute:02}:{second:02}.{millis:03}"))
}

/// The date of a day counted from the epoch, after Howard Hinnant's "chrono-compatible low-level date
/// algorithms". A damaged stamp gives a far year, never a failure.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(719_468);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era.saturating_add(era.saturating_mul(400)).saturating_add(u64::from(month <= 2));
    (year, month, day)
}

/// The days from the epoch to a date.
fn days_to(year: u64, month: u64, day: u64) -> Option<u64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let last = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    if !(1970..=9999).contains(&year) || day == 0 || day > last {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
}

/// Reads a point in time: RFC 3339 (`2026-12-01T04:00:00Z`; seconds, fraction and zone may be left out,
/// and so may the time), or a duration, which means that long before `now`.
pub(crate) fn parse(text: &str, now: u64) -> Option<u64> {
    let text = text.trim();
    if let Some(ago) = parse_duration(text) {
        return Some(now.saturating_sub(ago));
    }
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, time),
        None => (text, "00:00"),
    };
    let mut parts = date.split('-');
    let (year, month, day) = (digits(parts.next()?)?, digits(parts.next()?)?, digits(parts.next()?)?);
    if parts.next().is_some() {
        return None;
    }
    let midnight = days_to(year, month, day)?.checked_mul(DAY)?;
    let zone = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (time, zone) = time.split_at_checked(zone)?;
    let wall = midnight.checked_add(of_day(time)?)?;
    let east = |zone: &str| {
        let (hours, minutes) = zone.split_once(':')?;
        let (hours, minutes) = (digits(hours)?, digits(minutes)?);
        (hours < 24 && minutes < 60).then_some((hours * 60 + minutes) * 60_000)
    };
    match (zone.get(..1), zone.get(1..)) {
        (None, _) | (Some("Z" | "z"), Some("")) => Some(wall),
        (Some("+"), Some(zone)) => wall.checked_sub(east(zone)?),
        (Some("-"), Some(zone)) => wall.checked_add(east(zone)?),
        _ => None,
    }
}

fn of_day(time: &str) -> Option<u64> {
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = time.split(':');
    let (hour, minute) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let second = parts.next().map_or(Some(0), digits)?;
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let millis = match fraction.get(..fraction.len().min(3))? {
        "" => 0,
        some => digits(some)? * 10_u64.pow(3 - u32::try_from(some.len()).ok()?),
    };
    Some((hour * 3600 + minute * 60 + second) * 1000 + millis)
}

fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Reads `250ms`, `30s`, `10m`, `2h` or `3d`, in milliseconds.
pub(crate) fn parse_duration(text: &str) -> Option<u64> {
    let unit = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(unit)?;
    let factor = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => DAY,
        _ => return None,
    };
    digits(number)?.checked_mul(factor)
}

/// A duration with its unit: `250 ms`, `1.2 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`.
pub(crate) fn duration(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0 => format!("{millis} ms"),
        1..=59 if millis % 1000 < 100 => format!("{seconds} s"),
        1..=59 => format!("{seconds}.{} s", millis % 1000 / 100),
        60..=3599 => two(seconds / 60, "min", seconds % 60, "s"),
        3600..=86_399 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

fn two(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large} {large_unit}")
    } else {
        format!("{large} {large_unit} {small} {small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_in_time_reads_back_as_it_was_written() {
        for wall in [0, 951_782_400_000, 1_764_561_600_123, 4_102_444_799_999, 253_402_300_799_999] {
            assert_eq!(parse(&rfc3339(wall), 0), Some(wall), "{}", rfc3339(wall));
        }
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_764_561_600_123), "2025-12-01T04:00:00.123Z");
        assert_eq!(in_words(1_764_561_600_123), "2025-12-01 at 04:00:00 UTC");
    }

    #[test]
    fn a_point_in_time_may_be_written_shorter_in_another_zone_or_as_so_long_ago() {
        let wall = 1_764_561_600_000;
        for text in [
            "2025-12-01T04:00:00Z",
            "2025-12-01 04:00",
            "2025-12-01T05:30:00.0+01:30",
            "2025-11-30T23:00-05:00",
        ] {
            assert_eq!(parse(text, 0), Some(wall), "{text}");
        }
        assert_eq!(parse("2025-12-01", 0), Some(wall - 4 * 3_600_000));
        assert_eq!(parse("10m", wall), Some(wall - 600_000));
        assert_eq!(parse("500ms", 200), Some(0));
    }

    #[test]
    fn what_is_no_point_in_time_is_none() {
        for text in [
            "",
            "x",
            "2025-13-01",
            "2025-02-29",
            "2025-12-01T24:00",
            "2025-12-01T04:00:00+99:00",
            "10",
            "10y",
            "2025-12-01T04",
            "2025-12-01T04:00:00é",
            "é",
            "99999999999999h",
        ] {
            assert_eq!(parse(text, 0), None, "{text}");
        }
    }

    #[test]
    fn a_stamp_that_no_clock_could_give_still_prints() {
        assert!(rfc3339(u64::MAX).ends_with('Z'));
    }

    #[test]
    fn durations_have_units() {
        let all = [0, 250, 1000, 1250, 59_999, 60_000, 200_000, 7_500_000, 273_600_000];
        let texts: Vec<String> = all.into_iter().map(duration).collect();
        let expected =
            ["0 ms", "250 ms", "1 s", "1.2 s", "59.9 s", "1 min", "3 min 20 s", "2 h 5 min", "3 d 4 h"];
        assert_eq!(texts, expected);
    }
}
