// Package pressure reads how much programs of this machine wait for memory, processors and disks (the
// kernel's pressure stall information, /proc/pressure), and warns when memory is short. The share of
// the time that is lost to waiting says so before anything fails; free memory does not, because caches use
// all of it. A kernel without it, or one that was started with psi=0, has no figures and no warning.
//
// Imports: base/background, github.com/prometheus/client_golang/prometheus.
package pressure
