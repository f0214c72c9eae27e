// Command release builds what a version of Ingot is published as:
//
//	ingot_VERSION_linux_ARCH.tar.gz    static programs, documents, manual pages, completions, systemd units
//	ingot_DEBVERSION_ARCH.deb          the same as a Debian package
//	ingot_VERSION_OS_ARCH.tar.gz, .zip the client for macOS and Windows (zip), with documents
//	ingot_VERSION_OS_ARCH.cdx.json     the modules that are linked, with licenses (CycloneDX)
//
// scripts/release adds the container image and SHA256SUMS. The result depends on the
// source, the Go toolchain and --epoch only, not on the machine, the directory, the user
// or the time: two builds have the same checksums, which `make release-check` verifies.
//
// Manual pages and completions are written by the program itself.
package main
