package main

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// suite is the release of Debian.
const suite = "bookworm"

// defaultMirror has the packages.
const defaultMirror = "http://deb.debian.org/debian"

// dirPrefix begins the names of guests' directories. They have disks, so they are in /var/tmp: /tmp
// may be in memory.
const dirPrefix = "ingot-vm-"

// diskSize is the size of the guest's disk, most of which is a hole in a sparse file.
const diskSize = "12G"

// packages are those of the guest beside Debian's essential ones: a server as an
// administrator would set it up for Ingot, and what apps without root need.
var packages = []string{
	// A machine that boots.
	"linux-image-cloud-amd64", "initramfs-tools", "busybox", "zstd", "systemd", "systemd-sysv", "udev", "kmod", "dbus",
	"dbus-user-session", "libpam-systemd", "apparmor", "openssh-server", "openssh-client", "iproute2", "procps",
	"login", "passwd", "sudo", "util-linux", "tzdata",
	// What the package depends on, recommends and suggests.
	"runc", "e2fsprogs", "ca-certificates", "git", "postgresql", "mariadb-server", "redis-server",
	// Runtimes of apps, and tools of administrators and tests.
	"python3", "nodejs", "nftables", "curl", "jq", "openssl", "zip", "unzip", "xz-utils",
	// Containers of an ordinary user.
	"uidmap", "passt", "slirp4netns", "fuse-overlayfs", "fuse2fs", "fuse3",
}

// setup configures the root file system in $1 after the packages are installed. The
// file of the key that may log in is in $KEY.
const setup = `
set -eu
cd "$1"
echo debian12 >etc/hostname
printf '127.0.0.1 localhost debian12\n::1 localhost\n' >etc/hosts
printf '/dev/vda / ext4 defaults 0 1\nLABEL=files /files ext4 ro,nofail,x-systemd.device-timeout=5s 0 0\n' >etc/fstab
mkdir -p files var/log/journal
printf '[Match]\nName=en* eth*\n[Network]\nDHCP=ipv4\n' >etc/systemd/network/10-all.network
printf '[Journal]\nStorage=persistent\nRateLimitBurst=0\n' | install -D -m 644 /dev/stdin etc/systemd/journald.conf.d/vm.conf
chroot . systemctl --quiet enable systemd-networkd ssh
# Servers of databases are started by Ingot. Nothing can be downloaded.
chroot . systemctl --quiet disable postgresql mariadb redis-server
chroot . systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service \
  systemd-networkd-wait-online.service
# An ordinary user, with ids for containers.
chroot . useradd --create-home --shell /bin/bash --uid 1000 dev
printf 'dev:100000:65536\n' | tee etc/subuid >etc/subgid
install -d -m 700 root/.ssh
install -d -m 700 -o 1000 -g 1000 home/dev/.ssh
install -m 600 "$KEY" root/.ssh/authorized_keys
install -m 600 -o 1000 -g 1000 "$KEY" home/dev/.ssh/authorized_keys
chroot . passwd --quiet --delete root
# A small initial file system: unpacking it takes long by emulation.
sed -i 's/^MODULES=.*/MODULES=list/' etc/initramfs-tools/initramfs.conf
printf '%s\n' virtio_pci virtio_blk virtio_net ext4 >>etc/initramfs-tools/modules
chroot . update-initramfs -u >/dev/null
: >etc/machine-id
rm -rf var/lib/apt/lists/* var/cache/apt/archives/*.deb var/cache/apt/*.bin
`

// recipe is everything that an image is made of. Images of other recipes are not used.
func recipe(mirror string) string {
	names := slices.Sorted(slices.Values(packages))
	return strings.Join([]string{suite, diskSize, mirror, strings.Join(names, ","), setup}, "\n")
}

// imageName is the name of the image's directory in the cache.
func imageName(mirror string) string {
	sum := sha256.Sum256([]byte(recipe(mirror)))
	return hex.EncodeToString(sum[:8])
}

// sources are the lines of apt's sources, for mmdebstrap.
func sources(mirror string) []string {
	return []string{
		"deb " + mirror + " " + suite + " main",
		"deb " + mirror + " " + suite + "-updates main",
		"deb " + mirror + "-security " + suite + "-security main",
	}
}
