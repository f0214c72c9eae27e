package sftp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Packet types.
const (
	kindInit     = 1
	kindVersion  = 2
	kindOpen     = 3
	kindClose    = 4
	kindRead     = 5
	kindWrite    = 6
	kindLstat    = 7
	kindFstat    = 8
	kindSetstat  = 9
	kindFsetstat = 10
	kindOpendir  = 11
	kindReaddir  = 12
	kindRemove   = 13
	kindMkdir    = 14
	kindRmdir    = 15
	kindRealpath = 16
	kindStat     = 17
	kindRename   = 18
	kindReadlink = 19
	kindSymlink  = 20
	kindStatus   = 101
	kindHandle   = 102
	kindData     = 103
	kindName     = 104
	kindAttrs    = 105
	kindExtended = 200
	kindReply    = 201
)

// Sizes. Clients query them with limits@openssh.com.
const (
	maxPacket  = 256 << 10
	maxData    = maxPacket - 1024
	maxHandles = 256
)

var errMessage = errors.New("bad message")

// readPacket reads one packet into b, which it enlarges if needed.
func readPacket(r *bufio.Reader, b []byte) (kind byte, payload, buffer []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, b, err
	}
	n := binary.BigEndian.Uint32(head[:4])
	if n < 1 || n > maxPacket {
		return 0, nil, b, fmt.Errorf("%w: a packet of %d bytes", errMessage, n)
	}
	n--
	if uint32(cap(b)) < n {
		b = make([]byte, n)
	}
	b = b[:n]
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, nil, b, io.ErrUnexpectedEOF
	}
	return head[4], b, b, nil
}

// parser parses a payload. After an error all values are zero.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) take(n int) []byte {
	if p.bad || n < 0 || len(p.b) < n {
		p.bad, p.b = true, nil
		return nil
	}
	out := p.b[:n]
	p.b = p.b[n:]
	return out
}

func (p *parser) uint32() uint32 {
	if b := p.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (p *parser) uint64() uint64 {
	if b := p.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (p *parser) bytes() []byte { return p.take(int(p.uint32())) }

func (p *parser) string() string { return string(p.bytes()) }

// Attribute flags.
const (
	hasSize     = 1
	hasOwner    = 2
	hasMode     = 4
	hasTimes    = 8
	hasExtended = 1 << 31
)

// attrs are the attributes of a file; flags says which of them are set.
type attrs struct {
	flags        uint32
	size         uint64
	uid, gid     uint32
	mode         uint32
	atime, mtime uint32
}

func (p *parser) attrs() attrs {
	a := attrs{flags: p.uint32()}
	if a.flags&hasSize != 0 {
		a.size = p.uint64()
	}
	if a.flags&hasOwner != 0 {
		a.uid, a.gid = p.uint32(), p.uint32()
	}
	if a.flags&hasMode != 0 {
		a.mode = p.uint32()
	}
	if a.flags&hasTimes != 0 {
		a.atime, a.mtime = p.uint32(), p.uint32()
	}
	if a.flags&hasExtended != 0 {
		for n := p.uint32(); n > 0 && !p.bad; n-- {
			p.bytes()
			p.bytes()
		}
	}
	return a
}

// packet is a response under construction.
type packet []byte

func newPacket(kind byte) packet { return packet{0, 0, 0, 0, kind} }

func (p packet) uint32(n uint32) packet { return binary.BigEndian.AppendUint32(p, n) }
func (p packet) uint64(n uint64) packet { return binary.BigEndian.AppendUint64(p, n) }

func (p packet) string(s string) packet { return append(p.uint32(uint32(len(s))), s...) }

func (p packet) attrs(a attrs) packet {
	p = p.uint32(a.flags)
	if a.flags&hasSize != 0 {
		p = p.uint64(a.size)
	}
	if a.flags&hasOwner != 0 {
		p = p.uint32(a.uid).uint32(a.gid)
	}
	if a.flags&hasMode != 0 {
		p = p.uint32(a.mode)
	}
	if a.flags&hasTimes != 0 {
		p = p.uint32(a.atime).uint32(a.mtime)
	}
	return p
}

// seal fills in the length.
func (p packet) seal() []byte {
	binary.BigEndian.PutUint32(p, uint32(len(p)-4))
	return p
}
