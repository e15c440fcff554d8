//! Conversion between numbers and text, for `Cast`: decimal, plain or with an exponent, and `NaN`,
//! `INF` and `-INF`. Real numbers are written with eight significant digits, which distinguish most
//! f32 values, as by C's `%.8g`; truth values are written as 1 and 0.
use crate::args::bad;
use ge_kernels::view::Num;
use ge_plugin_api::Error;
use ge_plugin_api::types::DType;

/// Number of significant digits of a real number.
const DIGITS: usize = 8;

/// A number converted to text.
pub fn written(n: Num) -> String {
    match n {
        Num::I(v) => v.to_string(),
        Num::U(v) => v.to_string(),
        Num::F(v) if v.is_nan() => "NaN".into(),
        Num::F(v) if v.is_infinite() => if v > 0.0 { "INF" } else { "-INF" }.into(),
        Num::F(v) => real(v),
    }
}

/// A finite real number converted to text.
fn real(v: f64) -> String {
    let scientific = format!("{v:.*e}", DIGITS - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let short = |s: &str| match s.contains('.') {
        true => s.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => s.to_owned(),
    };
    if (-4..DIGITS as i32).contains(&exponent) {
        return short(&format!("{v:.*}", (DIGITS as i32 - 1 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", short(digits), exponent.abs())
}

/// Converts text to a number for an element type; `None` if it is not a number. For integer types,
/// the fraction is cut off.
pub fn number(s: &str, to: DType) -> Option<Num> {
    let s = s.trim();
    let digits = s.strip_prefix('+').unwrap_or(s);
    if to.is_int()
        && let Ok(n) = digits.parse().map(Num::I).or_else(|_| digits.parse().map(Num::U))
    {
        return Some(n);
    }
    let v: f64 = digits.parse().ok()?;
    (!to.is_int() || v.is_finite()).then(|| Num::F(if to.is_int() { v.trunc() } else { v }))
}

/// The error for text that is not a number.
pub fn not_a_number(s: &str) -> Error {
    bad("input 0", format!("`{s}`"), "the text of a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of onnxruntime.
    #[test]
    fn numbers_are_written_with_eight_digits() {
        let f32s: [(f32, &str); 12] = [
            (1.0, "1"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.33333334"),
            (1e10, "1e+10"),
            (1e-10, "1e-10"),
            (123_456_789.0, "1.2345679e+08"),
            (16_777_216.0, "16777216"),
            (-0.0, "-0"),
            (100.0, "100"),
            (1e-5, "9.9999997e-06"),
            (0.0001, "9.9999997e-05"),
            (f32::NEG_INFINITY, "-INF"),
        ];
        for (v, text) in f32s {
            assert_eq!(written(Num::F(f64::from(v))), text);
        }
        let f64s =
            [(1.0 / 3.0, "0.33333333"), (1e-5, "1e-05"), (0.0001, "0.0001"), (f64::NAN, "NaN"), (9.999_999_99, "10")];
        for (v, text) in f64s {
            assert_eq!(written(Num::F(v)), text);
        }
        assert_eq!((written(Num::I(-3)), written(Num::U(u64::MAX))), ("-3".into(), "18446744073709551615".into()));
    }

    #[test]
    fn numbers_are_read_from_decimal_text() {
        let real = |s: &str| number(s, DType::F32).map(super::super::cast::double);
        assert_eq!((real("1e-5"), real(" +7"), real("-2.5")), (Some(1e-5), Some(7.0), Some(-2.5)));
        assert_eq!((real("INF"), real("-inf")), (Some(f64::INFINITY), Some(f64::NEG_INFINITY)));
        assert!(
            real("NaN").is_some_and(f64::is_nan)
                && real("0x10").is_none()
                && real("").is_none()
                && real("abc").is_none()
        );
        let whole = |s: &str| number(s, DType::I64).map(super::super::cast::double);
        assert_eq!(
            (whole("-3"), whole("2.5"), whole("1e3"), whole("NaN")),
            (Some(-3.0), Some(2.0), Some(1000.0), None)
        );
        assert!(matches!(number("-9223372036854775808", DType::I64), Some(Num::I(i64::MIN))));
    }
}
