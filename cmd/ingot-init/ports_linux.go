package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// listening returns the sockets on which a member and its descendants listen.
// Without permission to read their files, it returns all listening sockets of the
// instance's own network, or nothing if the network is shared; own says which.
func (h *host) listening(pid int) (all []socket, own bool) {
	inodes, seen := map[string]bool{}, false
	for _, one := range append(descendants(pid), pid) {
		seen = socketsOf("/proc/"+strconv.Itoa(one)+"/fd", inodes) || seen
	}
	if !seen && !h.first {
		return nil, false
	}
	eachTable(func(table io.Reader) {
		eachListening(table, func(s socket, inode string) {
			if !seen || inodes[inode] {
				all = append(all, s)
			}
		})
	})
	if tls := h.spec.TLS; tls != nil { // ingot-init's own
		all = slices.DeleteFunc(all, func(s socket) bool { return s.port == tls.Port })
	}
	return all, seen || len(h.spec.Members) == 1
}

// taken reports whether a program outside the instance listens on a port, and none inside. A
// container has a network and ports of its own. Where the files of a process cannot be read, the
// port may be that process's.
func (h *host) taken(port int) bool {
	if h.first {
		return false
	}
	inodes := map[string]bool{}
	for _, pid := range append(descendants(os.Getpid()), os.Getpid()) {
		dir := "/proc/" + strconv.Itoa(pid)
		if socketsOf(dir+"/fd", inodes) {
			continue
		}
		if _, err := os.Stat(dir); err == nil {
			return false
		}
	}
	listeners, ours := 0, 0
	eachTable(func(table io.Reader) {
		eachListening(table, func(s socket, inode string) {
			if s.port != port {
				return
			}
			listeners++
			if inodes[inode] {
				ours++
			}
		})
	})
	return listeners > 0 && ours == 0
}

// eachTable opens the kernel's tables of sockets.
func eachTable(read func(table io.Reader)) {
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		if table, err := os.Open(file); err == nil { // IPv6 may be disabled
			read(table)
			_ = table.Close()
		}
	}
}

// cpuTime returns the processor time that a process and its descendants have used.
func cpuTime(pid int) time.Duration {
	const tick = 10 * time.Millisecond // of all Linux systems
	var ticks int64
	for _, one := range append(descendants(pid), pid) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(one) + "/stat")
		if err != nil {
			continue // ended meanwhile
		}
		// After the name, which may have spaces: the state, …, and from the 14th column of all
		// the time in user and in kernel mode.
		_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
		fields := strings.Fields(rest)
		for i := 11; i <= 12 && i < len(fields); i++ {
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * tick
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

// eachListening reads /proc/net/tcp or tcp6, with the columns number, local address, remote address, state, …, of which
// the tenth is the inode. It keeps one line at a time: with the process engine the table has the sockets of the whole
// machine, which may be many.
func eachListening(table io.Reader, visit func(s socket, inode string)) {
	const listen = "0A"
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(" "+listen+" ")) {
			continue
		}
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != listen {
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
		visit(socket{ip, int(port)}, fields[9])
	}
}
