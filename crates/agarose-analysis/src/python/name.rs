//! Identifiers as the compiler compares them (NFKC), for the characters that keyboards and editors make.

/// The normal form of an identifier that is not ASCII.
pub(super) fn normalise(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for letter in name.chars() {
        let code = letter as u32;
        match code {
            0xFB00 => normal.push_str("ff"),
            0xFB01 => normal.push_str("fi"),
            0xFB02 => normal.push_str("fl"),
            0xFB03 => normal.push_str("ffi"),
            0xFB04 => normal.push_str("ffl"),
            0xFB05 | 0xFB06 => normal.push_str("st"),
            0x00B5 => normal.push('μ'),
            0x017F => normal.push('s'),
            0x00AA => normal.push('a'),
            0x00BA => normal.push('o'),
            0x2126 => normal.push('Ω'),
            0x212B => normal.push('Å'),
            0x212A => normal.push('K'),
            0x210E => normal.push('h'),
            0x2102 => normal.push('C'),
            0x2115 => normal.push('N'),
            0x2119 => normal.push('P'),
            0x211A => normal.push('Q'),
            0x211D => normal.push('R'),
            0x2124 => normal.push('Z'),
            0x1D62 => normal.push('i'),
            0x2C7C => normal.push('j'),
            0x2090 => normal.push('a'),
            0x2091 => normal.push('e'),
            0x2092 => normal.push('o'),
            0x2093 => normal.push('x'),
            0x03D1 => normal.push('θ'),
            0x03D5 => normal.push('φ'),
            0x03D6 => normal.push('π'),
            0x03F0 => normal.push('κ'),
            0x03F1 => normal.push('ρ'),
            0x03F5 => normal.push('ε'),
            0x03C2 => normal.push('ς'),
            // Full-width forms of ASCII.
            0xFF01..=0xFF5E => normal.extend(char::from_u32(code - 0xFF01 + 0x21)),
            // Mathematical letters: 26 capitals and 26 small letters in each of 13 styles, then digits.
            0x1D400..=0x1D6A3 => {
                let at = (code - 0x1D400) % 52;
                let first = if at < 26 { 'A' as u32 + at } else { 'a' as u32 + at - 26 };
                normal.extend(char::from_u32(first));
            }
            0x1D7CE..=0x1D7FF => normal.extend(char::from_u32('0' as u32 + (code - 0x1D7CE) % 10)),
            // Combining marks on the letter before: the common European ones.
            0x0300..=0x0304 | 0x0306 | 0x0308 | 0x030A | 0x030C | 0x0327 | 0x0328 => {
                match normal.pop() {
                    Some(base) => match compose(base, code) {
                        Some(whole) => normal.push(whole),
                        None => normal.extend([base, letter]),
                    },
                    None => normal.push(letter),
                };
            }
            _ => normal.push(letter),
        }
    }
    normal
}

fn compose(base: char, mark: u32) -> Option<char> {
    let row = match mark {
        0x0300 => "AÀEÈIÌOÒUÙaàeèiìoòuù",
        0x0301 => "AÁEÉIÍOÓUÚYÝaáeéiíoóuúyýcćnńsśzź",
        0x0302 => "AÂEÊIÎOÔUÛaâeêiîoôuû",
        0x0303 => "AÃNÑOÕaãnñoõ",
        0x0308 => "AÄEËIÏOÖUÜaäeëiïoöuüyÿ",
        0x030A => "AÅaåUŮuů",
        0x030C => "CČSŠZŽcčsšzžeěrřnň",
        0x0327 => "CÇcçSŞsş",
        _ => return None,
    };
    let mut letters = row.chars();
    while let (Some(plain), Some(whole)) = (letters.next(), letters.next()) {
        if plain == base {
            return Some(whole);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::normalise;

    #[test]
    fn ligatures_styles_and_marks_become_plain_letters() {
        assert_eq!(normalise("ﬁnd"), "find");
        assert_eq!(normalise("𝐱"), "x");
        assert_eq!(normalise("cafe\u{301}"), "café");
        assert_eq!(normalise("µ"), "μ");
        assert_eq!(normalise("数据"), "数据");
    }
}
