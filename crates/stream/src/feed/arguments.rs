//! The arguments with which ffmpeg receives a stream. They are a list, which no shell sees, and all but the address are
//! ours.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::declaration::{Declaration, Format};

/// How long it looks at the beginning of a stream before it gives up, the first time, ...
const FIRST_LOOK: Duration = Duration::from_secs(3);

/// ... and how often that doubles.
const LOOKS: u32 = 3;

/// It says but what is wrong.
const QUIET: [&str; 5] = ["-hide_banner", "-loglevel", "error", "-nostats", "-y"];

/// Whether a camera gives this format by itself.
fn gives(formats: &str, name: &str) -> bool {
    let compressed = formats.lines().filter_map(|line| line.split_once("Compressed:")).map(|(_, rest)| rest);
    compressed.filter_map(|rest| rest.split(':').next()).any(|found| found.trim() == name)
}

/// Arguments that copy a stream from an address, after so many failures.
pub(super) fn from_url(url: &str, format: Format, failures: u32) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = QUIET.map(OsString::from).to_vec();
    // It looks at the stream's beginning, which it passes on as well, until a picture has come that stands alone. How far
    // apart these are is the sender's choice.
    let look = FIRST_LOOK * 2_u32.pow(failures.min(LOOKS));
    arguments.extend([
        "-fpsprobesize".into(),
        "0".into(),
        "-analyzeduration".into(),
        look.as_micros().to_string().into(),
    ]);
    if matches!(format, Format::Bytes | Format::Frames) {
        arguments.extend(["-f", "data", "-i"].map(OsString::from));
        arguments.push(url.into());
        arguments.extend(["-map", "0", "-c", "copy", "-f", "data"].map(OsString::from));
    } else {
        if url.starts_with("rtsp://") {
            arguments.extend(["-rtsp_transport", "tcp", "-i", url].map(OsString::from));
        } else if url.starts_with("rtp://") {
            arguments.extend(["-protocol_whitelist", "pipe,rtp,udp", "-f", "sdp", "-i", "pipe:0"].map(OsString::from));
        } else {
            arguments.extend(["-i", url].map(OsString::from));
        }
        arguments.extend(["-map", "0:v:0", "-c:v", "copy"].map(OsString::from));
        arguments.extend(muxer(format));
    }
    arguments.extend(["-flush_packets", "1", "pipe:1"].map(OsString::from));
    arguments
}

/// Arguments that write a stream of this format.
fn muxer(format: Format) -> Vec<OsString> {
    let arguments: &[&str] = match format {
        // Parameter sets, which may come apart from the stream, go before each picture that a decoder can begin with.
        Format::H264 => &["-bsf:v", "h264_mp4toannexb,dump_extra=freq=keyframe", "-f", "h264"],
        Format::Hevc => &["-bsf:v", "hevc_mp4toannexb,dump_extra=freq=keyframe", "-f", "hevc"],
        Format::Ivf => &["-f", "ivf"],
        Format::Bytes | Format::Frames => &["-f", "rawvideo"],
    };
    arguments.iter().map(OsString::from).collect()
}

/// Arguments that copy a camera's pictures, or encode them if the camera has not done so.
pub(super) fn from_camera(path: &Path, declaration: &Declaration, formats: &str) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = QUIET.map(OsString::from).to_vec();
    arguments.extend(["-f", "v4l2"].map(OsString::from));
    if let Some(rate) = declaration.rate {
        arguments.extend(["-framerate".into(), rate.to_string().into()]);
    }
    let name = declaration.format.to_string();
    let is_given = matches!(declaration.format, Format::H264 | Format::Hevc) && gives(formats, &name);
    if is_given {
        arguments.extend(["-input_format".into(), name.into()]);
    }
    arguments.extend(["-i".into(), path.into(), "-an".into()]);
    // A late session waits for a picture that a decoder can begin with: one in each second or two.
    let encoder: &[&str] = match declaration.format {
        Format::H264 | Format::Hevc if is_given => &["-c:v", "copy"],
        Format::H264 => {
            &["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-pix_fmt", "yuv420p", "-g", "30"]
        }
        Format::Hevc => {
            &["-c:v", "libx265", "-preset", "ultrafast", "-tune", "zerolatency", "-pix_fmt", "yuv420p", "-g", "30"]
        }
        Format::Ivf => &["-c:v", "libsvtav1", "-preset", "10", "-pix_fmt", "yuv420p", "-g", "30"],
        Format::Bytes | Format::Frames => &["-c:v", "rawvideo", "-pix_fmt", "nv12"],
    };
    arguments.extend(encoder.iter().map(OsString::from));
    arguments.extend(if is_given || !matches!(declaration.format, Format::H264 | Format::Hevc) {
        muxer(declaration.format)
    } else {
        // The encoder repeats the parameter sets.
        vec!["-f".into(), declaration.format.to_string().into()]
    });
    arguments.extend(["-flush_packets", "1", "pipe:1"].map(OsString::from));
    arguments
}

/// What a receiver of RTP has to know of its stream (RFC 8866): the payload type is the usual first dynamic one.
pub(super) fn session_description(url: &str, format: Format) -> Option<String> {
    let place = url.strip_prefix("rtp://")?;
    let place = place.split(['/', '?']).next()?;
    let (host, port) = place.rsplit_once(':')?;
    let host = host.trim_start_matches('@').trim_start_matches('[').trim_end_matches(']');
    let codec = match format {
        Format::H264 => "H264",
        Format::Hevc => "H265",
        _ => "AV1",
    };
    let family = if host.contains(':') { "IP6" } else { "IP4" };
    Some(format!(
        "v=0\r\no=- 0 0 IN {family} {host}\r\ns=-\r\nc=IN {family} {host}\r\nt=0 0\r\nm=video {port} RTP/AVP 96\r\n\
         a=rtpmap:96 {codec}/90000\r\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declaration::{Full, Table};

    /// As `ffmpeg -list_formats all` writes them.
    const FORMATS: &str = "[video4linux2,v4l2 @ 0x5581] Raw       :     yuyv422 :           YUYV 4:2:2 : 640x480 1280x720\n\
                           [video4linux2,v4l2 @ 0x5581] Compressed:       mjpeg :          Motion-JPEG : 640x480 1280x720\n\
                           [video4linux2,v4l2 @ 0x5581] Compressed:        h264 :                H.264 : 1920x1080\n\
                           /dev/video0: Immediate exit requested\n";

    fn text(arguments: &[OsString]) -> String {
        arguments.iter().map(|argument| argument.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    fn camera(format: &str) -> String {
        let table = format!("name = 'a'\nv4l2 = '/dev/video0'\nformat = '{format}'\nrate = 25\nfull = 'drop-newest'");
        let declaration = toml::from_str::<Table>(&table).unwrap().check(1).unwrap();
        assert_eq!(declaration.full, Full::DropNewest);
        text(&from_camera(Path::new("/dev/video0"), &declaration, FORMATS))
    }

    #[test]
    fn a_camera_encodes_if_it_can() {
        assert!(
            camera("h264").contains(" -framerate 25 -input_format h264 -i /dev/video0 -an -c:v copy -bsf:v h264_mp4")
        );
        assert!(camera("hevc").contains(" -i /dev/video0 -an -c:v libx265 ") && camera("hevc").contains(" -f hevc "));
        assert!(
            camera("ivf").contains(" -c:v libsvtav1 ") && camera("ivf").ends_with(" -f ivf -flush_packets 1 pipe:1")
        );
        assert!(camera("bytes").contains(" -c:v rawvideo -pix_fmt nv12 -f rawvideo "));
    }

    #[test]
    fn an_address_is_one_argument_after_i() {
        let arguments = from_url("rtsp://a/b?x=1;reboot", Format::H264, 0);
        let at = arguments.iter().position(|argument| argument == "-i").unwrap();
        assert_eq!(arguments[at + 1], "rtsp://a/b?x=1;reboot");
        assert!(text(&arguments).contains("-analyzeduration 3000000 -rtsp_transport tcp -i "));
        assert!(
            text(&from_url("udp://:5000", Format::Bytes, 9))
                .contains("24000000 -f data -i udp://:5000 -map 0 -c copy -f data ")
        );
    }

    #[test]
    fn rtp_is_described() {
        let text = session_description("rtp://127.0.0.1:5004?x=1", Format::Hevc).unwrap();
        assert!(text.contains("c=IN IP4 127.0.0.1\r\n") && text.contains("m=video 5004 RTP/AVP 96\r\n"), "{text}");
        assert!(text.contains("a=rtpmap:96 H265/90000"));
        let text = session_description("rtp://[ff05::1]:6", Format::H264).unwrap();
        assert!(text.contains("c=IN IP6 ff05::1\r\n") && text.contains("m=video 6 "), "{text}");
        assert!(session_description("udp://127.0.0.1:5004", Format::H264).is_none());
    }
}
