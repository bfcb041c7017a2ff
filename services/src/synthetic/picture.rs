//! A JPEG of exactly 100 000 bytes: a real picture (a grey gradient with a
//! bright square) followed by comments that fill it up.

use bytes::{BufMut, Bytes, BytesMut};

const BYTES: usize = 100_000;

const WIDTH: u16 = 640;
const HEIGHT: u16 = 480;

/// The most that one comment segment carries.
const MAX_COMMENT: usize = 65_533;

/// Encodes the picture: ITU-T T.81, baseline, one component, constant blocks only.
pub(super) fn jpeg() -> Bytes {
    let scan = scan();
    let mut out = BytesMut::with_capacity(BYTES);
    out.put_slice(&[0xff, 0xd8]);
    put_segment(&mut out, 0xe0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0");
    let after = frame().len() + scan.len() + 2;
    put_comments(&mut out, BYTES - after);
    out.put_slice(&frame());
    out.put_slice(&scan);
    out.put_slice(&[0xff, 0xd9]);
    out.freeze()
}

fn put_comments(out: &mut BytesMut, end: usize) {
    while out.len() < end {
        let rest = end - out.len() - 4;
        // Never leave fewer than the four bytes that the next comment needs.
        let size = if rest <= MAX_COMMENT { rest } else { MAX_COMMENT.min(rest - 4) };
        put_segment(out, 0xfe, &vec![b'.'; size]);
    }
}

/// Tables and headers before the coded data.
fn frame() -> Vec<u8> {
    let mut out = BytesMut::new();
    let mut quantisation = [1; 65];
    quantisation[0] = 0; // 8 bits, table 0
    quantisation[1] = 8; // so that a DC step of 1 is one grey level
    put_segment(&mut out, 0xdb, &quantisation);
    let [h1, h0] = HEIGHT.to_be_bytes();
    let [w1, w0] = WIDTH.to_be_bytes();
    put_segment(&mut out, 0xc0, &[8, h1, h0, w1, w0, 1, 1, 0x11, 0]);
    // DC: the nine categories 0 to 8, four bits each. AC: end of block, one bit.
    put_segment(&mut out, 0xc4, &[0x00, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    put_segment(&mut out, 0xc4, &[0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x00]);
    put_segment(&mut out, 0xda, &[1, 1, 0x00, 0, 63, 0]);
    out.to_vec()
}

fn put_segment(out: &mut BytesMut, marker: u8, body: &[u8]) {
    out.put_slice(&[0xff, marker]);
    out.put_u16((body.len() + 2) as u16); // at most MAX_COMMENT + 2
    out.put_slice(body);
}

/// The coded data: each block is only its grey level, as the difference to the block before.
fn scan() -> Vec<u8> {
    let mut bits = Bits::default();
    let mut before = 0;
    for y in 0..HEIGHT / 8 {
        for x in 0..WIDTH / 8 {
            let level = level(x, y);
            put_difference(&mut bits, level - before);
            bits.put(0, 1); // end of block
            before = level;
        }
    }
    bits.finish()
}

/// The grey level of a block; 0 is medium grey.
fn level(x: u16, y: u16) -> i32 {
    let square = (30..40).contains(&x) && (20..30).contains(&y);
    if square { 120 } else { i32::from(x + y) - 70 }
}

/// Writes the category (the number of bits) and then the bits; a negative number is reduced by one first.
fn put_difference(bits: &mut Bits, difference: i32) {
    let category = 32 - difference.unsigned_abs().leading_zeros();
    let coded = if difference < 0 { difference - 1 } else { difference };
    bits.put(category, 4);
    bits.put(coded as u32 & ((1 << category) - 1), category);
}

#[derive(Default)]
struct Bits {
    out: Vec<u8>,
    held: u32,
    count: u32,
}

impl Bits {
    /// Appends the lowest `width` bits of `value`, at most 16.
    fn put(&mut self, value: u32, width: u32) {
        self.held = self.held << width | value;
        self.count += width;
        while self.count >= 8 {
            self.count -= 8;
            let byte = (self.held >> self.count) as u8;
            self.held &= (1 << self.count) - 1;
            self.out.push(byte);
            if byte == 0xff {
                self.out.push(0); // else it would read as a marker
            }
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            let width = 8 - self.count;
            self.put((1 << width) - 1, width);
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jpeg_has_exact_size_and_markers() {
        let picture = jpeg();
        assert_eq!(picture.len(), BYTES);
        assert!(picture.starts_with(&[0xff, 0xd8, 0xff]));
        assert!(picture.ends_with(&[0xff, 0xd9]));
    }

    #[test]
    fn the_scan_has_no_stray_marker() {
        let scan = scan();
        assert!(scan.windows(2).all(|pair| pair[0] != 0xff || pair[1] == 0));
    }
}
