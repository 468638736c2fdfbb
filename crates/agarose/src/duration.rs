//! `DUR`, the durations of the command line: `250ms`, `30s`, `10m`, `2h`, `1d`, and `0` for none.

use std::time::Duration;

/// A duration as it was typed; none is `0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dur(pub(crate) Option<Duration>);

impl Dur {
    /// In milliseconds, with 0 for none.
    pub(crate) fn millis(self) -> u64 {
        self.0.map_or(0, |duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

impl std::str::FromStr for Dur {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a duration: write 250ms, 30s, 10m, 2h, or 0 for none");
        let text = text.trim();
        let unit_at = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let unit_ms: u64 = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "" if number.trim_matches('0').is_empty() && !number.is_empty() => return Ok(Self(None)),
            _ => return Err(wrong()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        // Three digits are enough for a millisecond of a second, and nine never overflow.
        if whole.is_empty() || fraction.is_empty() || fraction.len() > 9 || fraction.contains('.') {
            return Err(wrong());
        }
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        let scale = 10_u64.pow(u32::try_from(fraction.len()).map_err(|_| wrong())?);
        let fraction: u64 = fraction.parse().map_err(|_| wrong())?;
        let millis = whole
            .checked_mul(unit_ms)
            .and_then(|ms| ms.checked_add(fraction.checked_mul(unit_ms)? / scale))
            .ok_or_else(wrong)?;
        if millis == 0 && (whole, fraction) != (0, 0) {
            return Err(format!("{text:?} is shorter than a millisecond"));
        }
        Ok(Self((millis > 0).then(|| Duration::from_millis(millis))))
    }
}

/// A duration for people: two units at most.
pub(crate) fn spoken(duration: Duration) -> String {
    let ms = duration.as_millis();
    let s = duration.as_secs();
    match s {
        0 => format!("{ms} ms"),
        1..60 => format!("{}.{} s", s, (ms % 1000) / 100),
        60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} min", s / 3600, (s % 3600) / 60),
    }
}

/// A size for people.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)];
    for (unit, size) in UNITS {
        if count >= size {
            return format!("{}.{} {unit}", count / size, (count % size) * 10 / size);
        }
    }
    format!("{count} bytes")
}

/// A size as it is typed: bytes, or a number with k, M or G (powers of 1024), as `ulimit` and systemd
/// have them.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size: write 500M, 2G or a number of bytes");
    let trimmed = text.trim();
    let digits = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match trimmed.get(digits.len()..).map(str::to_ascii_lowercase).as_deref() {
        Some("" | "b") => 1,
        Some("k" | "kb" | "kib") => 1 << 10,
        Some("m" | "mb" | "mib") => 1 << 20,
        Some("g" | "gb" | "gib") => 1 << 30,
        Some("t" | "tb" | "tib") => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(factor).filter(|size| *size > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> Result<u64, String> {
        text.parse::<Dur>().map(Dur::millis)
    }

    #[test]
    fn a_duration_has_a_number_and_a_unit() {
        for (text, expected) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("10m", 600_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("1.5s", 1500),
            (" 2s ", 2000),
            ("0", 0),
            ("0s", 0),
            ("000", 0),
        ] {
            assert_eq!(ms(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_duration_is_refused_with_the_forms_that_are() {
        for text in ["", "s", "5", "-3s", "1.s", ".5s", "1.2.3s", "5 parsecs", "99999999999999999999s", "inf"]
        {
            let error = ms(text).unwrap_err();
            assert!(error.contains("write 250ms"), "{text}: {error}");
        }
        assert!(ms("0.0001ms").unwrap_err().contains("shorter than a millisecond"));
        assert!(ms("9999999999999999h").is_err());
    }

    #[test]
    fn durations_and_sizes_are_spoken_with_units() {
        assert_eq!(spoken(Duration::from_millis(12)), "12 ms");
        assert_eq!(spoken(Duration::from_millis(4250)), "4.2 s");
        assert_eq!(spoken(Duration::from_secs(125)), "2 min 05 s");
        assert_eq!(spoken(Duration::from_secs(7260)), "2 h 01 min");
        assert_eq!(bytes(999), "999 bytes");
        assert_eq!(bytes(1_500_000), "1.5 MB");
    }

    #[test]
    fn a_size_may_have_a_suffix() {
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        assert_eq!(parse_size("500 M"), Ok(500 << 20));
        assert_eq!(parse_size("1024"), Ok(1024));
        for text in ["", "G", "2X", "0", "-1G", "99999999999999T"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
