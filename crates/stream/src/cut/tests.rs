use proptest::prelude::*;

use super::*;
use crate::declaration::{Full, Origin};

fn declaration(format: Format, most: usize) -> Declaration {
    Declaration {
        name: "a".into(),
        origin: Origin::File("a".into()),
        format,
        chunk: 4,
        rate: None,
        ring: 1,
        full: Full::Wait,
        repeats: false,
        most,
    }
}

/// The chunks of a stream that comes in reads of these sizes, over and over, and how it ends.
fn cut(format: Format, most: usize, stream: &[u8], reads: &[usize]) -> (Vec<Bytes>, Result<(), CutError>) {
    let mut cutter = Cutter::new(&declaration(format, most));
    let (mut chunks, mut rest) = (Vec::new(), stream);
    for &read in reads.iter().cycle() {
        let (now, later) = rest.split_at(read.clamp(1, rest.len().max(1)).min(rest.len()));
        if let Err(error) = cutter.push(now, &mut chunks) {
            assert_eq!(cutter.push(b"more", &mut chunks), Err(error.clone()));
            assert_eq!(cutter.finish(&mut chunks), Err(error.clone()));
            return (chunks, Err(error));
        }
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    let end = cutter.finish(&mut chunks);
    (chunks, end)
}

fn all(format: Format, stream: &[u8]) -> (Vec<Bytes>, Result<(), CutError>) {
    cut(format, 1000, stream, &[usize::MAX])
}

fn is_not_that(end: &Result<(), CutError>) -> bool {
    matches!(end, Err(CutError::NotThat { .. }))
}

#[test]
fn pieces_have_one_size_but_for_the_last() {
    let (chunks, end) = all(Format::Bytes, b"0123456789");
    assert_eq!((chunks, end), (vec![Bytes::from("0123"), "4567".into(), "89".into()], Ok(())));
    assert_eq!(all(Format::Bytes, b""), (vec![], Ok(())));
}

#[test]
fn frames_are_as_long_as_they_say() {
    let (chunks, end) = all(Format::Frames, b"\x02\0\0\0ab\0\0\0\0\x01\0\0\0c");
    assert_eq!((chunks, end), (vec![Bytes::from("ab"), "".into(), "c".into()], Ok(())));
    for truncated in [&b"\x02\0\0\0a"[..], b"\x02\0\0"] {
        assert_eq!(all(Format::Frames, truncated).1, Err(CutError::Truncated("a frame")));
    }
    let huge = all(Format::Frames, b"\x01\0\0\0a\xff\xff\xff\xffabc");
    assert_eq!(huge, (vec![Bytes::from("a")], Err(CutError::TooLarge { unit: "a frame", most: 1000 })));
    let exact = [&1000_u32.to_le_bytes()[..], &[7; 1000]].concat();
    assert_eq!(all(Format::Frames, &exact), (vec![vec![7; 1000].into()], Ok(())));
}

fn ivf(header: &[u8], units: &[&[u8]]) -> Vec<u8> {
    let unit = |unit: &&[u8]| [&(unit.len() as u32).to_le_bytes()[..], &[0; 8], unit].concat();
    [header, &units.iter().flat_map(unit).collect::<Vec<_>>()].concat()
}

fn ivf_header(length: u16, codec: &[u8; 4]) -> Vec<u8> {
    [b"DKIF\0\0", &length.to_le_bytes()[..], codec, &vec![0; usize::from(length).max(32) - 12]].concat()
}

#[test]
fn ivf_holds_temporal_units() {
    for length in [32, 40] {
        let (chunks, end) = all(Format::Ivf, &ivf(&ivf_header(length, b"AV01"), &[b"unit", b"", b"x"]));
        assert_eq!((chunks, end), (vec![Bytes::from("unit"), "".into(), "x".into()], Ok(())));
    }
    let stream = ivf(&ivf_header(32, b"AV01"), &[b"unit"]);
    for (cut_at, unit) in [(0, "its header"), (31, "its header"), (33, "a temporal unit"), (47, "a temporal unit")] {
        assert_eq!(all(Format::Ivf, &stream[..cut_at]).1, Err(CutError::Truncated(unit)));
    }
    for wrong in
        [ivf_header(32, b"VP90"), ivf_header(31, b"AV01"), b"RIFF".repeat(9), b"DKIF\x01\0\x20\0AV01".repeat(9)]
    {
        assert!(is_not_that(&all(Format::Ivf, &wrong).1), "{wrong:?}");
    }
    let huge = [&ivf_header(32, b"AV01")[..], &[0xff; 12]].concat();
    assert_eq!(all(Format::Ivf, &huge).1, Err(CutError::TooLarge { unit: "a temporal unit", most: 1000 }));
}

/// NAL units of H.264: what they are, and what is expected of them. The first slice of a picture has a set bit after its
/// header.
const AUD: &[u8] = &[0, 0, 0, 1, 9, 0xf0];
const SPS: &[u8] = &[0, 0, 0, 1, 0x67, 0x42, 0, 0x1e];
const PPS: &[u8] = &[0, 0, 1, 0x68, 0xce];
const SEI: &[u8] = &[0, 0, 1, 6, 5, 1, 0x80];
const IDR: &[u8] = &[0, 0, 1, 0x65, 0x88, 0x84, 7];
const MORE: &[u8] = &[0, 0, 1, 0x65, 0x48, 0x84, 7];
const PICTURE: &[u8] = &[0, 0, 0, 1, 0x41, 0x9a, 7];
const END: &[u8] = &[0, 0, 1, 10];

#[test]
fn h264_is_cut_before_what_begins_an_access_unit() {
    for units in [
        vec![vec![AUD, SPS, PPS, IDR, MORE, MORE], vec![AUD, SEI, PICTURE, MORE], vec![AUD, PICTURE]],
        vec![vec![SPS, PPS, SEI, IDR], vec![PICTURE], vec![PICTURE, MORE], vec![SEI, PICTURE, END], vec![SPS, IDR]],
        // It begins in the middle of a picture; one that is a slice without its first is a unit all the same.
        vec![vec![MORE], vec![PICTURE]],
    ] {
        let units: Vec<_> = units.iter().map(|unit| Bytes::from(unit.concat())).collect();
        let (chunks, end) = all(Format::H264, &units.concat());
        assert_eq!((&chunks, end), (&units, Ok(())));
        let begins: Vec<_> = chunks.iter().map(|chunk| begins(Format::H264, chunk)).collect();
        let has = |unit: &Bytes| unit.windows(3).any(|at| at[..2] == [0, 1] && matches!(at[2], 0x67 | 0x65));
        assert_eq!(begins, units.iter().map(has).collect::<Vec<_>>());
    }
}

#[test]
fn hevc_is_cut_before_what_begins_an_access_unit() {
    let nal = |kind: u8, layer: u8, third: u8| vec![0, 0, 1, kind << 1, layer << 3 | 1, third, 7];
    let (vps, sps, pps, sei, suffix) = (nal(32, 0, 0), nal(33, 0, 0), nal(34, 0, 0), nal(39, 0, 0), nal(40, 0, 0));
    let (idr, more, picture, enhanced) = (nal(19, 0, 0x80), nal(19, 0, 0), nal(1, 0, 0x80), nal(1, 1, 0x80));
    let units = [
        [vps.clone(), sps, pps, sei.clone(), idr, more.clone(), suffix].concat(),
        [picture.clone(), more, enhanced].concat(),
        [sei, picture].concat(),
    ];
    let (chunks, end) = all(Format::Hevc, &units.concat());
    assert_eq!((&chunks[..], end), (&units.clone().map(Bytes::from)[..], Ok(())));
    assert_eq!(chunks.iter().map(|chunk| begins(Format::Hevc, chunk)).collect::<Vec<_>>(), [true, true, false]);
    assert!(is_not_that(&all(Format::Hevc, &[&vps[..], &[0, 0, 1, 2, 0, 7]].concat()).1));
}

#[test]
fn what_has_no_start_codes_is_refused() {
    for (format, stream) in [
        (Format::H264, &b"RIFF....AVI LIST"[..]),
        (Format::H264, b"\0\0\x02\x67 and more"),
        (Format::H264, b"\0\0\0\x01\xe5\x80 the forbidden bit"),
        (Format::H264, b"x"),
        (Format::H264, b"\0\0"),
        (Format::Hevc, b"\0\0\x01\x80\x01"),
    ] {
        let (chunks, end) = all(format, stream);
        assert!(chunks.is_empty() && is_not_that(&end), "{stream:?}: {end:?}");
    }
    let truncated = all(Format::H264, &[PICTURE, SPS].concat());
    assert_eq!(truncated, (vec![Bytes::from(PICTURE)], Err(CutError::Truncated("an access unit"))));
}

#[test]
fn a_unit_without_end_is_refused_and_takes_no_memory() {
    for (format, begin, repeat) in [
        (Format::H264, IDR, &b"endless"[..]),
        (Format::H264, SPS, PPS),
        (Format::H264, b"", &[0; 100]),
        (Format::Hevc, &[0, 0, 1, 38, 1, 0x80], &[0, 0, 1, 38, 1, 0]),
    ] {
        let mut cutter = Cutter::new(&declaration(format, 5000));
        let mut chunks = Vec::new();
        cutter.push(begin, &mut chunks).unwrap();
        let error = (0..10_000).find_map(|_| cutter.push(repeat, &mut chunks).err()).unwrap();
        assert_eq!(error, CutError::TooLarge { unit: "an access unit", most: 5000 });
        let Kind::AnnexB(cut) = &cutter.kind else { panic!() };
        assert!(chunks.is_empty() && cut.held() <= 5000 + 200, "{}", cut.held());
    }
}

#[test]
fn a_unit_may_be_as_large_as_the_declaration_says_and_no_larger() {
    for larger in [0, 1, 2, 9] {
        for reads in [1, 3, 1000] {
            let unit = [PICTURE, &vec![9; 100 - PICTURE.len() + larger]].concat();
            let (chunks, end) = cut(Format::H264, 100, &[&unit, PICTURE].concat(), &[reads]);
            match larger {
                0 => assert_eq!((chunks, end), (vec![unit.into(), PICTURE.into()], Ok(()))),
                _ => assert_eq!((chunks, end), (vec![], Err(CutError::TooLarge { unit: "an access unit", most: 100 }))),
            }
        }
    }
}

/// Streams that are mostly what they say.
fn stream() -> impl Strategy<Value = (Format, Vec<u8>)> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    // Zeros and ones make start codes, whole and in part.
    let codes = || proptest::collection::vec(prop_oneof![4 => Just(0), 3 => Just(1), 1 => any::<u8>()], 0..300);
    let nals = proptest::collection::vec(
        prop_oneof![Just(AUD), Just(SPS), Just(PPS), Just(SEI), Just(IDR), Just(MORE), Just(PICTURE), Just(&[0][..])],
        0..40,
    );
    let chunks = || proptest::collection::vec(bytes(), 0..12);
    let frames = chunks().prop_map(|chunks| {
        chunks.iter().flat_map(|chunk| [&(chunk.len() as u32).to_le_bytes()[..], chunk].concat()).collect()
    });
    let units =
        chunks().prop_map(|units| ivf(&ivf_header(40, b"AV01"), &units.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    prop_oneof![
        codes().prop_map(|bytes| (Format::Bytes, bytes)),
        frames.prop_map(|bytes| (Format::Frames, bytes)),
        units.prop_map(|bytes| (Format::Ivf, bytes)),
        nals.prop_map(|nals| (Format::H264, nals.concat())),
        codes().prop_map(|bytes| (Format::H264, [PICTURE, &bytes].concat())),
        codes().prop_map(|bytes| (Format::H264, bytes)),
        codes().prop_map(|bytes| (Format::Hevc, [&[0, 0, 1, 2, 1][..], &bytes].concat())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn how_a_stream_is_read_changes_nothing(
        (format, mut stream) in stream(),
        reads in proptest::collection::vec(1_usize..50, 1..10),
        most in prop_oneof![Just(30_usize), Just(1000)],
        flip in proptest::option::of((any::<prop::sample::Index>(), any::<u8>())),
        end in any::<prop::sample::Index>(),
    ) {
        if let (Some((at, byte)), false) = (flip, stream.is_empty()) {
            let at = at.index(stream.len());
            stream[at] = byte;
            stream.truncate(1 + end.index(stream.len()));
        }
        let (whole, whole_end) = cut(format, most, &stream, &[usize::MAX]);
        for reads in [&reads[..], &[1]] {
            let (chunks, end) = cut(format, most, &stream, reads);
            prop_assert_eq!(&chunks, &whole);
            prop_assert_eq!(end.is_ok(), whole_end.is_ok(), "{:?} {:?}", end, whole_end);
        }
        prop_assert!(whole.iter().all(|chunk| chunk.len() <= most));
        // Nothing is lost of a stream without headers.
        if whole_end.is_ok() && !matches!(format, Format::Frames | Format::Ivf) {
            prop_assert_eq!(whole.concat(), stream);
        }
        // Nobody who comes late is led astray.
        for chunk in &whole {
            begins(format, chunk);
        }
    }

    #[test]
    fn garbage_is_refused_or_cut(
        stream in proptest::collection::vec(any::<u8>(), 0..2000),
        format in prop_oneof![Just(Format::Frames), Just(Format::H264), Just(Format::Hevc), Just(Format::Ivf)],
    ) {
        let (whole, end) = all(format, &stream);
        prop_assert!(whole.iter().all(|chunk| chunk.len() <= 1000));
        prop_assert_eq!(&(whole, end.is_ok()), &{
            let (chunks, end) = cut(format, 1000, &stream, &[1, 7]);
            (chunks, end.is_ok())
        });
        for format in [Format::H264, Format::Hevc, Format::Ivf] {
            begins(format, &stream);
        }
    }
}
