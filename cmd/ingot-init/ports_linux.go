package main

import (
	"encoding/binary"
	"encoding/hex"
	"net"
	"os"
	"strconv"
	"strings"
)

// listening returns the sockets on which a member and its descendants listen.
// Without permission to read their files, it returns all listening sockets of the
// instance's own network, or nothing if the network is shared.
func (h *host) listening(pid int) []socket {
	inodes, seen := map[string]bool{}, false
	for _, one := range append(descendants(pid), pid) {
		seen = socketsOf("/proc/"+strconv.Itoa(one)+"/fd", inodes) || seen
	}
	if !seen && !h.first {
		return nil
	}
	var all []socket
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		table, err := os.ReadFile(file)
		if err != nil {
			continue // IPv6 may be disabled
		}
		all = append(all, parseListening(string(table), func(inode string) bool { return !seen || inodes[inode] })...)
	}
	return all
}

// socketsOf adds the inodes of the sockets in a folder of file descriptors, and
// reports whether it could be read.
func socketsOf(dir string, inodes map[string]bool) bool {
	names, err := readNames(dir)
	if err != nil {
		return false
	}
	for _, name := range names {
		target, err := os.Readlink(dir + "/" + name)
		if err != nil {
			continue // closed in the meantime
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return true
}

// parseListening reads /proc/net/tcp or tcp6, with the columns number, local
// address, remote address, state, …, of which the tenth is the inode.
func parseListening(table string, ours func(inode string) bool) (all []socket) {
	const listen = "0A"
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[3] != listen || !ours(fields[9]) {
			continue
		}
		address, number, _ := strings.Cut(fields[1], ":")
		port, err := strconv.ParseUint(number, 16, 16)
		raw, bad := hex.DecodeString(address)
		if err != nil || bad != nil || len(raw) != net.IPv4len && len(raw) != net.IPv6len {
			continue
		}
		// 32-bit words in the machine's byte order.
		ip := make(net.IP, len(raw))
		for i := 0; i < len(raw); i += 4 {
			binary.NativeEndian.PutUint32(ip[i:], binary.BigEndian.Uint32(raw[i:]))
		}
		all = append(all, socket{ip, int(port)})
	}
	return all
}
