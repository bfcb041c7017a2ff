//! The loss between two antennas, in decibels, and the noise of a receiver.
//!
//! Losses are reciprocal, and never fall as the distance grows. Distances below a meter count as one: nearer than
//! that no antenna is far from the other.

use super::LIGHT_MPS;

const NEAREST_M: f64 = 1.0;

/// Boltzmann's constant (SI, exact) and the reference temperature of noise figures.
const BOLTZMANN_J_PER_K: f64 = 1.380_649e-23;
const REFERENCE_K: f64 = 290.0;

fn decibels(ratio: f64) -> f64 {
    10.0 * ratio.log10()
}

/// Free space: 20 log₁₀(4πd/λ).
///
/// H. T. Friis, "A note on a simple transmission formula", Proc. IRE 34(5), 1946; with isotropic antennas the basic
/// transmission loss of Recommendation ITU-R P.525, equation 4.
pub fn free_space_db(distance_m: f64, frequency_hz: f64) -> f64 {
    let wavelength_m = LIGHT_MPS / frequency_hz;
    2.0 * decibels(4.0 * std::f64::consts::PI * distance_m.max(NEAREST_M) / wavelength_m)
}

/// Log-distance: free space up to the reference distance, then 10 n log₁₀(d/d₀) more.
///
/// T. S. Rappaport, "Wireless communications: principles and practice", 2nd edition 2002, equation 4.68.
pub fn log_distance_db(distance_m: f64, frequency_hz: f64, exponent: f64, reference_m: f64) -> f64 {
    let reference_m = reference_m.max(NEAREST_M);
    if distance_m <= reference_m {
        return free_space_db(distance_m, frequency_hz);
    }
    free_space_db(reference_m, frequency_hz) + exponent * decibels(distance_m / reference_m)
}

/// The distance at which the reflection from the ground takes over: 4π hₜ hᵣ/λ.
///
/// As in Rappaport, section 4.6, with the crossover at which the two laws meet.
pub fn crossover_m(heights_m: [f64; 2], frequency_hz: f64) -> f64 {
    4.0 * std::f64::consts::PI * heights_m[0] * heights_m[1] * frequency_hz / LIGHT_MPS
}

/// Two-ray ground: free space up to the crossover, then 40 log₁₀ d − 20 log₁₀(hₜ hᵣ).
///
/// Rappaport, equation 4.53.
pub fn two_ray_db(distance_m: f64, frequency_hz: f64, heights_m: [f64; 2]) -> f64 {
    let crossover = crossover_m(heights_m, frequency_hz);
    if distance_m <= crossover.max(NEAREST_M) {
        return free_space_db(distance_m, frequency_hz);
    }
    if crossover <= NEAREST_M {
        // Antennas on the ground: the fourth power from a meter on.
        return free_space_db(NEAREST_M, frequency_hz) + 4.0 * decibels(distance_m / NEAREST_M);
    }
    4.0 * decibels(distance_m) - 2.0 * decibels(heights_m[0] * heights_m[1])
}

/// Thermal noise k T B in dBm, raised by the receiver's noise figure; −174 dBm in a hertz.
pub fn noise_dbm(bandwidth_hz: f64, noise_figure_db: f64) -> f64 {
    decibels(BOLTZMANN_J_PER_K * REFERENCE_K * bandwidth_hz * 1000.0) + noise_figure_db
}

/// Shannon's bound B log₂(1 + S/N), bits a second.
///
/// C. E. Shannon, "Communication in the presence of noise", Proc. IRE 37(1), 1949, theorem 2.
pub fn shannon_bps(bandwidth_hz: f64, snr_db: f64) -> f64 {
    bandwidth_hz * (1.0 + 10.0_f64.powf(snr_db / 10.0)).log2()
}

/// The distance of the horizon along the ground from a height over a sphere of this radius: R arccos(R/(R + h)).
///
/// With 4/3 of the Earth's radius the ray is bent by a standard atmosphere (Recommendation ITU-R P.834).
pub fn horizon_m(height_m: f64, radius_m: f64) -> f64 {
    radius_m * (radius_m / (radius_m + height_m.max(0.0))).acos()
}
