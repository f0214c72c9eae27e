package logs

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"
)

// A segment file is a sequence of frames: the length of the payload (uvarint),
// its CRC-32C (4 bytes, little endian), the payload. The first byte of a payload
// says what it is:
//
//	h  header, first in each file: version, expired, lost, streams, earlier segments
//	r  reset: origins and the previous time are discarded (the writer restarted)
//	d  origin: the next origin's stream, source, instance and tags
//	o  line on standard output: origin, time minus the previous time, seq, text
//	e  the same on standard error
//	l  loss: a stream, or none, and how many lines of it were lost
//
// All numbers are varints, strings are prefixed by their length.
const (
	kindHeader = 'h'
	kindReset  = 'r'
	kindOrigin = 'd'
	kindOut    = 'o'
	kindErr    = 'e'
	kindLoss   = 'l'

	formatVersion = 2
	// withoutLosses is the previous version, whose headers have no losses.
	withoutLosses = 1
	maxPayload    = maxText + 256<<10
	frameOverhead = binary.MaxVarintLen32 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// origin is the source of lines; it is written once per segment.
type origin struct {
	stream, source, instance string
	tags                     map[string]string
}

// appendFrame appends a frame with payload.
func appendFrame(b, payload []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	return append(b, payload...)
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendOrigin(b []byte, o *origin) []byte {
	b = append(b, kindOrigin)
	b = appendString(b, o.stream)
	b = appendString(b, o.source)
	b = appendString(b, o.instance)
	b = binary.AppendUvarint(b, uint64(len(o.tags)))
	for k, v := range o.tags {
		b = appendString(b, k)
		b = appendString(b, v)
	}
	return b
}

func appendLine(b []byte, stderr bool, origin int, delta int64, seq uint64, text []byte) []byte {
	if stderr {
		b = append(b, kindErr)
	} else {
		b = append(b, kindOut)
	}
	b = binary.AppendUvarint(b, uint64(origin))
	b = binary.AppendVarint(b, delta)
	b = binary.AppendUvarint(b, seq)
	return append(b, text...)
}

// header repeats the state before a segment.
type header struct {
	expired  uint64 // lines dropped so far
	lost     uint64 // lost lines, of all streams ever
	streams  []streamMark
	segments []segment // those before this one, oldest first
}

type streamMark struct {
	name string
	seq  uint64
	last int64 // time of its last line
	lost uint64
}

// segment is the metadata of a segment file.
type segment struct {
	number   uint64
	size     int64
	count    uint64
	min, max int64 // times of its lines
}

func (s *segment) add(at int64) {
	if s.count == 0 {
		s.min, s.max = at, at
	}
	s.min, s.max = min(s.min, at), max(s.max, at)
	s.count++
}

func appendHeader(b []byte, h *header) []byte {
	b = append(b, kindHeader, formatVersion)
	b = binary.AppendUvarint(b, h.expired)
	b = binary.AppendUvarint(b, h.lost)
	b = binary.AppendUvarint(b, uint64(len(h.streams)))
	for _, s := range h.streams {
		b = appendString(b, s.name)
		b = binary.AppendUvarint(b, s.seq)
		b = binary.AppendVarint(b, s.last)
		b = binary.AppendUvarint(b, s.lost)
	}
	b = binary.AppendUvarint(b, uint64(len(h.segments)))
	for _, s := range h.segments {
		b = binary.AppendUvarint(b, s.number)
		b = binary.AppendVarint(b, s.size)
		b = binary.AppendUvarint(b, s.count)
		b = binary.AppendVarint(b, s.min)
		b = binary.AppendVarint(b, s.max)
	}
	return b
}

func appendLoss(b []byte, stream string, n uint64) []byte {
	b = append(b, kindLoss)
	b = appendString(b, stream)
	return binary.AppendUvarint(b, n)
}

// fields reads the fields of a payload; after an error all others are zero.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) uint() uint64 {
	v, n := binary.Uvarint(f.b)
	if n <= 0 {
		f.bad, f.b = true, nil
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) int() int64 {
	v, n := binary.Varint(f.b)
	if n <= 0 {
		f.bad, f.b = true, nil
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) string() string {
	n := f.uint()
	if n > uint64(len(f.b)) {
		f.bad, f.b = true, nil
		return ""
	}
	s := string(f.b[:n])
	f.b = f.b[n:]
	return s
}

// count reads the number of items that follow; each takes at least one byte.
func (f *fields) count() int {
	n := f.uint()
	if n > uint64(len(f.b)) {
		f.bad, f.b = true, nil
		return 0
	}
	return int(n)
}

func parseHeader(payload []byte) (*header, bool) {
	if len(payload) < 2 || payload[0] != kindHeader || payload[1] != formatVersion && payload[1] != withoutLosses {
		return nil, false
	}
	losses := payload[1] != withoutLosses
	f := fields{b: payload[2:]}
	h := &header{expired: f.uint()}
	if losses {
		h.lost = f.uint()
	}
	for range f.count() {
		m := streamMark{name: f.string(), seq: f.uint(), last: f.int()}
		if losses {
			m.lost = f.uint()
		}
		h.streams = append(h.streams, m)
	}
	for range f.count() {
		h.segments = append(h.segments, segment{f.uint(), f.int(), f.uint(), f.int(), f.int()})
	}
	ordered := slices.IsSortedFunc(h.segments, func(a, b segment) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	return h, !f.bad && len(f.b) == 0 && ordered
}

// line is one line in a segment. Its text shares the buffer.
type line struct {
	at     int64
	order  uint64 // by arrival: the segment's number and the index in it
	seq    uint64
	origin *origin
	text   []byte
	stderr bool
}

// errTorn means that a segment does not end with a complete frame.
var errTorn = errors.New("not a whole frame")

// scanner reads a segment from its start, or continues with more of it.
type scanner struct {
	buf     []byte
	off     int  // everything before it is valid
	middle  bool // buf does not start with the segment
	header  *header
	origins []*origin
	before  int64
	loss    func(stream string, n uint64) // called for losses, unless nil
}

// next moves to the next line. It returns false at the end, or with errTorn if the rest
// cannot be read.
func (s *scanner) next(into *line) (bool, error) {
	for s.off < len(s.buf) {
		payload, size := cutFrame(s.buf[s.off:])
		if size == 0 || len(payload) == 0 {
			return false, errTorn
		}
		kind := payload[0]
		if (kind == kindHeader) != (s.off == 0 && !s.middle) {
			return false, errTorn
		}
		switch kind {
		case kindHeader:
			h, ok := parseHeader(payload)
			if !ok {
				return false, errTorn
			}
			s.header = h
		case kindReset:
			s.origins, s.before = nil, 0
		case kindOrigin:
			o, ok := parseOrigin(payload)
			if !ok {
				return false, errTorn
			}
			s.origins = append(s.origins, o)
		case kindLoss:
			f := fields{b: payload[1:]}
			stream, n := f.string(), f.uint()
			if f.bad {
				return false, errTorn
			}
			if s.loss != nil {
				s.loss(stream, n)
			}
		case kindOut, kindErr:
			f := fields{b: payload[1:]}
			id, delta, seq := f.uint(), f.int(), f.uint()
			if f.bad || id >= uint64(len(s.origins)) {
				return false, errTorn
			}
			s.before += delta
			*into = line{at: s.before, order: uint64(s.off), seq: seq, origin: s.origins[id], text: f.b, stderr: kind == kindErr}
			s.off += size
			return true, nil
		default:
			return false, errTorn
		}
		s.off += size
	}
	return false, nil
}

func parseOrigin(payload []byte) (*origin, bool) {
	f := fields{b: payload[1:]}
	o := &origin{stream: f.string(), source: f.string(), instance: f.string()}
	if n := f.count(); n > 0 {
		o.tags = make(map[string]string, min(n, 64))
		for range n {
			k := f.string()
			o.tags[k] = f.string()
		}
	}
	return o, !f.bad && len(f.b) == 0
}

// cutFrame returns the payload of the first frame and the size of the frame, or zero if it
// is incomplete.
func cutFrame(b []byte) (payload []byte, size int) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > maxPayload || n > math.MaxInt32 || len(b)-k < 4+int(n) {
		return nil, 0
	}
	sum := binary.LittleEndian.Uint32(b[k:])
	payload = b[k+4 : k+4+int(n)]
	if crc32.Checksum(payload, castagnoli) != sum {
		return nil, 0
	}
	return payload, k + 4 + int(n)
}
