// Command release builds what a version of Ingot is published as:
//
//	ingot_VERSION_linux_ARCH.tar.gz    static programs, documents, manual pages, completions, systemd units
//	ingot_DEBVERSION_ARCH.deb          the same as a Debian package
//	ingot-DEBVERSION-1.ARCH.rpm        the same as an rpm package
//	ingot_VERSION_OS_ARCH.tar.gz, .zip the client for macOS and Windows (zip), with documents
//	ingot_VERSION_OS_ARCH.cdx.json     the modules that are linked, with licenses (CycloneDX)
//
// With --publish it reads a folder with these files and the container image, which
// scripts/release adds, and writes how to install and verify them:
//
//	apt/, rpm/                         repositories, signed if there is a key
//	install.sh, ingot.rb, ingot.json   an installer, a Homebrew formula, a Scoop manifest
//	provenance.json, .intoto.jsonl     the source of the files (SLSA), and the same signed
//	RELEASE.md, SHA256SUMS             the page, and the checksums of all files
//
// The result depends on the source, the Go toolchain, the key and --epoch only, not on the
// machine, the directory, the user or the time: two builds have the same checksums, which
// `make release-check` verifies.
//
// Manual pages and completions are written by the program itself.
package main
