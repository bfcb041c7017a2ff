//! A test for complete JPEG files.

/// Bytes of padding that may follow the picture's end; some cameras fill up their blocks.
const MAX_PADDING: usize = 64 * 1024;

/// The bytes at a picture's end that [`is_complete`] looks at.
pub(super) const TAIL_BYTES: u64 = MAX_PADDING as u64 + 2;

/// True if `bytes` begin and end as a JPEG does. The content between is not checked.
pub fn is_complete(bytes: &[u8]) -> bool {
    if bytes.len() < 4 || !bytes.starts_with(&[0xff, 0xd8, 0xff]) {
        return false;
    }
    let padding = bytes.iter().rev().take(MAX_PADDING).take_while(|byte| matches!(byte, 0 | b'\n' | b'\r')).count();
    bytes[..bytes.len() - padding].ends_with(&[0xff, 0xd9])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_whole_pictures_pass() {
        let picture = crate::synthetic::object(roost_wire::Service::Image);
        assert!(is_complete(&picture));
        assert!(is_complete(&[&picture[..], &[0; 500]].concat()));
        assert!(!is_complete(&picture[..picture.len() - 1]));
        assert!(!is_complete(&picture[1..]));
        assert!(!is_complete(&[0xff, 0xd8, 0xff]));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(prop_oneof![Just(0xff), Just(0xd8), Just(0xd9), Just(0)], 0..12)) {
            let _ = is_complete(&bytes);
        }
    }
}
