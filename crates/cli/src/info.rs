//! The platforms and devices of a welcome, as text.

use ropeway_abi as cl;
use ropeway_protocol::handshake::{DeviceInfo, PlatformInfo, Property};

/// A platform's CL_PLATFORM_NAME.
pub fn platform_name(platform: &PlatformInfo) -> String {
    text(&platform.properties, cl::CL_PLATFORM_NAME)
}

/// A device's CL_DEVICE_NAME.
pub fn device_name(device: &DeviceInfo) -> String {
    text(&device.properties, cl::CL_DEVICE_NAME)
}

/// A device's CL_DEVICE_VERSION without the vendor's part.
pub fn device_version(device: &DeviceInfo) -> String {
    text(&device.properties, cl::CL_DEVICE_VERSION).split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// A device's CL_DEVICE_TYPE in a word.
pub fn device_type(device: &DeviceInfo) -> &'static str {
    match number(&device.properties, cl::CL_DEVICE_TYPE) {
        Some(bits) if bits & cl::CL_DEVICE_TYPE_GPU != 0 => "GPU",
        Some(bits) if bits & cl::CL_DEVICE_TYPE_CPU != 0 => "CPU",
        Some(bits) if bits & cl::CL_DEVICE_TYPE_ACCELERATOR != 0 => "accelerator",
        Some(bits) if bits & cl::CL_DEVICE_TYPE_CUSTOM != 0 => "custom",
        _ => "?",
    }
}

/// A device's CL_DEVICE_MAX_COMPUTE_UNITS.
pub fn compute_units(device: &DeviceInfo) -> String {
    number(&device.properties, cl::CL_DEVICE_MAX_COMPUTE_UNITS).map_or("?".into(), |n| n.to_string())
}

/// A device's CL_DEVICE_GLOBAL_MEM_SIZE.
pub fn memory(device: &DeviceInfo) -> String {
    match number(&device.properties, cl::CL_DEVICE_GLOBAL_MEM_SIZE) {
        Some(bytes) => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        None => "?".into(),
    }
}

fn find(properties: &[Property], key: u32) -> Option<&[u8]> {
    properties.iter().find(|(k, _)| *k == key).and_then(|(_, value)| value.as_deref().ok())
}

/// A text property. What a server sends is shown without the characters that would move a terminal's cursor.
fn text(properties: &[Property], key: u32) -> String {
    let Some(bytes) = find(properties, key) else { return "?".into() };
    let text = String::from_utf8_lossy(bytes.split(|&b| b == 0).next().unwrap_or_default());
    text.trim().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A number of 4 or 8 bytes, little-endian as all of Ropeway's machines are.
fn number(properties: &[Property], key: u32) -> Option<u64> {
    let bytes = find(properties, key)?;
    let four = || bytes.try_into().ok().map(|b| u32::from_le_bytes(b).into());
    bytes.try_into().ok().map(u64::from_le_bytes).or_else(four)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_become_text() {
        let device = DeviceInfo {
            properties: vec![
                (cl::CL_DEVICE_NAME, Ok(b" A \x1b[2J\n card\0\0".to_vec())),
                (cl::CL_DEVICE_TYPE, Ok(4u64.to_le_bytes().to_vec())),
                (cl::CL_DEVICE_MAX_COMPUTE_UNITS, Ok(132u32.to_le_bytes().to_vec())),
                (cl::CL_DEVICE_VERSION, Ok(b"OpenCL 3.0 CUDA\0".to_vec())),
                (cl::CL_DEVICE_GLOBAL_MEM_SIZE, Err(-30)),
            ],
        };
        assert_eq!(device_name(&device), "A ?[2J? card");
        assert_eq!(device_type(&device), "GPU");
        assert_eq!(compute_units(&device), "132");
        assert_eq!(device_version(&device), "OpenCL 3.0");
        assert_eq!(memory(&device), "?");
    }
}
