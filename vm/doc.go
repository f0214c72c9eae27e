// Command vm runs a real Debian 12 in QEMU, with systemd as process 1 and cgroup v2 only, for
// tests and for trying things out. It needs the programs that `scripts/setup vm` installs, and
// root to make an image.
//
//	vm image    make the image, unless the cache has it, and print its directory
//	vm up       start a guest and print how to log in; it ends with this command
//
// An image is made of Debian's packages (recipe.go), in a directory of the cache whose name is
// the checksum of all that it is made of. A guest's disk is a layer over that of the image, so that
// guests do not change it. A guest has no network but two ports that only this machine
// reaches. It runs with KVM if a trial works, and otherwise by emulation, which is about five times
// slower.
//
// TestGuest installs the Debian package in a guest and runs the parts of `make test-vm`.
package main
