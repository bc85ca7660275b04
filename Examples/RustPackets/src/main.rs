// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

//! A protocol in Rust on the packet functions of culvert.h: it reads packets with Tokio's AsyncFd and writes them back with
//! source and destination exchanged. `start_tun` and `stop_tun` are what an extension calls (Examples/CExtension); this
//! program calls them too, with one end of a socket pair. It needs no privileges and no arguments.

use std::os::raw::{c_char, c_int, c_void};
use std::os::unix::io::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{io, ptr};

use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

#[repr(C)]
pub struct CulvertPackets {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct CulvertError {
    result: i32,
    system_error: i32,
    message: [c_char; 504],
}

#[link(name = "culvert-c")]
extern "C" {
    fn culvert_packets_open(
        descriptor: i32, format: i32, mtu: u32, packets: *mut *mut CulvertPackets, error: *mut CulvertError,
    ) -> i32;
    fn culvert_packets_read(
        packets: *mut CulvertPackets, buffer: *mut c_void, capacity: usize, timeout: i64, length: *mut usize,
        error: *mut CulvertError,
    ) -> i32;
    fn culvert_packets_write(
        packets: *mut CulvertPackets, packet: *const c_void, length: usize, error: *mut CulvertError,
    ) -> i32;
    fn culvert_packets_free(packets: *mut CulvertPackets) -> i32;
}

const OK: i32 = 0;
const SYSTEM: i32 = 5;
const TIMED_OUT: i32 = 7;
const TRUNCATED: i32 = 10;
const REFUSED: i32 = 11;
const FORMAT_AUTOMATIC: i32 = 0;

/// The packet port of a descriptor.
struct Packets(*mut CulvertPackets);

// Every function of culvert.h may be called on any thread.
unsafe impl Send for Packets {}

impl Packets {
    fn open(descriptor: c_int) -> Result<Packets, i32> {
        let mut packets = ptr::null_mut();
        match unsafe { culvert_packets_open(descriptor, FORMAT_AUTOMATIC, 0, &mut packets, ptr::null_mut()) } {
            OK => Ok(Packets(packets)),
            error => Err(error),
        }
    }

    /// Reads a packet without waiting.
    fn read<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a mut [u8], i32> {
        let mut length = 0;
        let room = buffer.as_mut_ptr().cast();
        match unsafe { culvert_packets_read(self.0, room, buffer.len(), 0, &mut length, ptr::null_mut()) } {
            OK => Ok(&mut buffer[..length]),
            error => Err(error),
        }
    }

    fn write(&self, packet: &[u8]) -> i32 {
        unsafe { culvert_packets_write(self.0, packet.as_ptr().cast(), packet.len(), ptr::null_mut()) }
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        unsafe { culvert_packets_free(self.0) };
    }
}

/// Answers packets until `stop` is notified, or until the descriptor ends.
async fn answer(packets: Packets, descriptor: OwnedFd, stop: Arc<Notify>) -> io::Result<()> {
    // culvert_packets_open has made the open file non-blocking, which AsyncFd needs.
    let descriptor = AsyncFd::new(descriptor)?;
    let mut buffer = vec![0; 65535];
    loop {
        let mut ready = tokio::select! {
            biased;
            _ = stop.notified() => return Ok(()),
            ready = descriptor.readable() => ready?,
        };
        // A limited number, so that a stop is seen under load too. AsyncFd stays ready until a read has found no packet.
        for _ in 0..64 {
            match packets.read(&mut buffer) {
                Ok(packet) => {
                    if packet.len() < 20 || packet[0] >> 4 != 4 {
                        continue;
                    }
                    let (source, destination) = packet[12..20].split_at_mut(4);
                    source.swap_with_slice(destination);
                    match packets.write(packet) {
                        // A full queue loses a packet, as everywhere on the internet.
                        OK | REFUSED => continue,
                        _ => return Ok(()),
                    }
                }
                Err(TIMED_OUT) => {
                    ready.clear_ready();
                    break;
                }
                Err(TRUNCATED) => continue,
                Err(_) => return Ok(()),
            }
        }
    }
}

struct Running {
    stop: Arc<Notify>,
    thread: JoinHandle<io::Result<()>>,
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

fn start(descriptor: c_int) -> Result<Running, i32> {
    let packets = Packets::open(descriptor)?;
    // The caller may close its descriptor at any time.
    let own = unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned().map_err(|_| SYSTEM)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(|_| SYSTEM)?;
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    let thread = thread::spawn(move || runtime.block_on(answer(packets, own, stopped)));
    Ok(Running { stop, thread })
}

/// Starts the protocol on a descriptor, which the caller keeps. Returns 0, or the error of culvert.h.
#[no_mangle]
pub extern "C" fn start_tun(descriptor: c_int) -> c_int {
    let mut running = RUNNING.lock().unwrap();
    if running.is_some() {
        return SYSTEM;
    }
    match start(descriptor) {
        Ok(new) => {
            *running = Some(new);
            OK
        }
        Err(error) => error,
    }
}

/// Wakes the protocol and returns when its thread has ended.
#[no_mangle]
pub extern "C" fn stop_tun() {
    if let Some(running) = RUNNING.lock().unwrap().take() {
        running.stop.notify_one();
        let _ = running.thread.join();
    }
}

/// Sends a packet to the protocol and returns whether its answer arrives within a minute.
fn passes(system: &UnixDatagram, number: u8) -> io::Result<bool> {
    let mut packet = [0; 84];
    packet[..10].copy_from_slice(&[0x45, 0, 0, 84, 0, number, 0, 0, 64, 253]);
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    system.send(&packet)?;
    let mut answer = [0; 128];
    let length = system.recv(&mut answer)?;
    Ok(length == packet.len() && answer[5] == number && answer[12..20] == [10, 0, 0, 2, 10, 0, 0, 1])
}

fn main() -> io::Result<ExitCode> {
    let rounds = 20;
    let (system, tunnel) = UnixDatagram::pair()?;
    system.set_read_timeout(Some(Duration::from_secs(60)))?;
    let result = start_tun(tunnel.as_raw_fd());
    if result != OK {
        eprintln!("start_tun: error {result}");
        return Ok(ExitCode::FAILURE);
    }
    let mut answered = 0;
    for number in 0..rounds {
        answered += usize::from(passes(&system, number)?);
    }
    println!("{answered} of {rounds} packets came back");
    // Nothing arrives any more: stop_tun wakes a thread that waits.
    let begun = Instant::now();
    stop_tun();
    let seconds = begun.elapsed().as_secs_f64();
    println!("stop_tun returned after {seconds:.3} s");
    let works = answered == usize::from(rounds) && seconds < 60.0;
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
