use proptest::prelude::*;

use super::*;
use crate::video::ts::{PACKET_BYTES, SYNC};

const TABLE_PID: u16 = 0x1000;
const VIDEO_PID: u16 = 0x100;

/// Writes a transport stream of one video.
#[derive(Default)]
struct Mux {
    counter: u8,
    out: Vec<u8>,
}

impl Mux {
    fn packet(&mut self, pid: u16, starts: bool, payload: &[u8]) -> usize {
        let [high, low] = pid.to_be_bytes();
        let room = PACKET_BYTES - 4;
        let taken = payload.len().min(room);
        let start = if starts { UNIT_START } else { 0 };
        let counter = if pid == VIDEO_PID { self.counter } else { 0 };
        self.out.extend([SYNC, high | start, low]);
        match room - taken {
            0 => self.out.push(0x10 | counter),
            // Packets that are not full are filled up by the adaptation field.
            1 => self.out.extend([0x30 | counter, 0]),
            missing => {
                self.out.extend([0x30 | counter, missing as u8 - 1, 0]);
                self.out.resize(self.out.len() + missing - 2, 0xff);
            }
        }
        self.out.extend(&payload[..taken]);
        if pid == VIDEO_PID {
            self.counter = (self.counter + 1) & 0x0f;
        }
        taken
    }

    fn table(&mut self, pid: u16, mut section: Vec<u8>) {
        section.insert(0, 0);
        section.resize(PACKET_BYTES - 4, 0xff);
        self.packet(pid, true, &section);
    }

    fn tables(&mut self) {
        let [high, low] = TABLE_PID.to_be_bytes();
        self.table(0, vec![0, 0xb0, 13, 0, 1, 0xc1, 0, 0, 0, 1, 0xe0 | high, low, 0, 0, 0, 0]);
        let [high, low] = VIDEO_PID.to_be_bytes();
        let streams = [H264_TYPE, 0xe0 | high, low, 0xf0, 0];
        let head = [2, 0xb0, (9 + streams.len() + 4) as u8, 0, 1, 0xc1, 0, 0, 0xe1, 0, 0xf0, 0];
        self.table(TABLE_PID, [&head[..], &streams, &[0; 4]].concat());
    }

    fn picture(&mut self, time: u64, length: bool, data: &[u8]) {
        let stamp = [
            0x21 | (time >> 29) as u8 & 0x0e,
            (time >> 22) as u8,
            (time >> 14) as u8 | 1,
            (time >> 7) as u8,
            (time << 1) as u8 | 1,
        ];
        let bytes = if length { data.len() + 8 } else { 0 };
        let head = [0, 0, 1, 0xe0, (bytes >> 8) as u8, bytes as u8, 0x80, 0x80, 5];
        let mut rest = &[&head[..], &stamp, data].concat()[..];
        let mut starts = true;
        while !rest.is_empty() {
            let taken = self.packet(VIDEO_PID, starts, rest);
            rest = &rest[taken..];
            starts = false;
        }
    }
}

fn units(units: &[&[u8]]) -> Vec<u8> {
    units.iter().flat_map(|unit| [&START_CODE[..], unit].concat()).collect()
}

const SETS: [&[u8]; 2] = [&[0x67, 1, 2, 3], &[0x68, 9]];

fn read_all<'a>(datagrams: impl Iterator<Item = &'a [u8]>) -> Vec<Picture> {
    let mut reader = Pictures::for_format(format::MPEG_TS).unwrap();
    datagrams.flat_map(|datagram| reader.read(datagram)).collect()
}

#[test]
fn key_frames_get_their_parameters() {
    let first = units(&[SETS[0], SETS[1], &[0x65, 1, 1]]);
    let (other, bare) = (units(&[&[0x41, 7]]), units(&[&[0x65, 2, 2]]));
    let mut mux = Mux::default();
    mux.tables();
    for (number, data) in [&first, &other, &bare].into_iter().enumerate() {
        mux.picture(3600 * number as u64, true, data);
    }
    let pictures = read_all(mux.out.chunks(6 * PACKET_BYTES));
    let whole = units(&[SETS[0], SETS[1], &[0x65, 2, 2]]);
    let expected = [(0, true, first), (3600, false, other), (7200, true, whole)];
    assert_eq!(pictures, expected.map(|(time, is_key, data)| Picture { time, is_key, data: data.into() }));
}

#[test]
fn formats_without_h264_have_no_pictures() {
    assert!(Pictures::for_format(format::JSON_LINES).is_none());
    let synthetic = crate::synthetic::stream(roost_wire::Service::Video, std::time::Duration::from_secs(1), 0);
    let mut reader = Pictures::for_format(format::MPEG_TS).unwrap();
    assert!(synthetic.map(|due| reader.read(&due.payload)).all(|pictures| pictures.is_empty()));
}

fn rtp_packet(sequence: u16, time: u32, ends: bool, payload: &[u8]) -> Vec<u8> {
    let marker = if ends { 0x80 } else { 0 };
    let mut out = vec![0x80, 96 | marker];
    out.extend(sequence.to_be_bytes());
    out.extend(time.to_be_bytes());
    out.extend([0; 4]);
    out.extend(payload);
    out
}

#[test]
fn rtp_is_unpacked() {
    let sets = [&[STAP_A][..], &[0, 4], SETS[0], &[0, 2], SETS[1]].concat();
    let packets = [
        rtp_packet(65_535, 5, false, &sets),
        rtp_packet(0, 5, false, &[0x60 | FU_A, 0x85, 1]),
        rtp_packet(1, 5, true, &[0x60 | FU_A, 0x45, 2]),
        rtp_packet(2, 9, true, &[0x41, 3]),
        // Number 3 is lost.
        rtp_packet(4, 13, true, &[0x41, 4]),
        rtp_packet(5, 17, true, &[0x41, 5]),
    ];
    let mut reader = Pictures::for_format(format::RTP_H264).unwrap();
    let pictures: Vec<Picture> = packets.iter().flat_map(|packet| reader.read(packet)).collect();
    let picture = |time, is_key, data: Vec<u8>| Picture { time, is_key, data: data.into() };
    let key = units(&[SETS[0], SETS[1], &[0x65, 1, 2]]);
    let [second, fifth] = [units(&[&[0x41, 3]]), units(&[&[0x41, 5]])];
    assert_eq!(pictures, [picture(5, true, key), picture(9, false, second), picture(17, false, fifth)]);
}

proptest! {
    #[test]
    fn whole_pictures_survive_loss(
        sizes in proptest::collection::vec((1_usize..2000, any::<bool>()), 1..20),
        lost in proptest::collection::btree_set(1_usize..60, 0..6),
        start in 0..1_u64 << 33,
    ) {
        let mut mux = Mux::default();
        mux.tables();
        // A last packet ends a picture without length.
        let sent: Vec<_> = sizes.iter().chain([&(1, true)]).enumerate().map(|(number, (size, length))| {
            let time = (start + number as u64 * 3600) % (1 << 33);
            let data = units(&[&[0x41], &vec![0xab; *size]]);
            mux.picture(time, *length, &data);
            (time, data)
        }).collect();
        let packets = mux.out.chunks(PACKET_BYTES).enumerate();
        let kept: Vec<&[u8]> = packets.filter(|(number, _)| *number < 2 || !lost.contains(number)).map(|(_, packet)| packet).collect();
        let read = read_all(kept.iter().copied());
        // In order, each as it was sent.
        let mut rest = sent.iter();
        for picture in &read {
            prop_assert!(rest.any(|(time, data)| *time == picture.time && picture.data == *data), "{picture:?}");
        }
        if lost.is_empty() {
            prop_assert_eq!(read.len(), sent.len());
        }
    }

    #[test]
    fn pictures_never_panic(
        datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..400), 0..20),
        of_rtp in any::<bool>(),
    ) {
        let mut reader = Pictures::for_format(if of_rtp { format::RTP_H264 } else { format::MPEG_TS }).unwrap();
        let mut mux = Mux::default();
        mux.tables();
        reader.read(&mux.out);
        for mut datagram in datagrams {
            let _ = reader.read(&datagram);
            if let [first, second, ..] = &mut datagram[..] {
                [*first, *second] = if of_rtp { [0x80, 96] } else { [SYNC, 0x41] };
            }
            let _ = reader.read(&datagram);
            datagram.resize(PACKET_BYTES, 0);
            [datagram[0], datagram[1], datagram[2], datagram[3]] = [SYNC, 0x41, 0x00, 0x10];
            let _ = reader.read(&datagram);
        }
    }
}
