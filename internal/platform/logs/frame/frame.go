package frame

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"
)

// A segment file, a chunk or a run is a sequence of frames: the length of the payload (uvarint),
// its CRC-32C (4 bytes, little endian), the payload. The first byte of a payload
// says what it is:
//
//	h  header, first in each segment file: version, expired, lost, streams, earlier segments
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
	maxPayload    = MaxText + 256<<10
)

// MaxText is the longest text of a line; longer ones are truncated and marked.
const MaxText = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Origin is the source of lines; it is written once per segment.
type Origin struct {
	Stream, Source, Instance string
	Tags                     map[string]string
}

// AppendFrame appends a frame with payload.
func AppendFrame(b, payload []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	return append(b, payload...)
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendOrigin(b []byte, o *Origin) []byte {
	b = append(b, kindOrigin)
	b = appendString(b, o.Stream)
	b = appendString(b, o.Source)
	b = appendString(b, o.Instance)
	b = binary.AppendUvarint(b, uint64(len(o.Tags)))
	for k, v := range o.Tags {
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

// Header repeats the state before a segment.
type Header struct {
	Expired  uint64 // lines dropped so far
	Lost     uint64 // lost lines, of all streams ever
	Streams  []StreamMark
	Segments []Segment // those before this one, oldest first
}

// StreamMark is the position of a stream.
type StreamMark struct {
	Name string
	Seq  uint64
	Last int64 // time of its last line
	Lost uint64
}

// Segment is the metadata of a segment file.
type Segment struct {
	Number   uint64
	Size     int64
	Count    uint64
	Min, Max int64 // times of its lines
}

// Add counts a line.
func (s *Segment) Add(at int64) {
	if s.Count == 0 {
		s.Min, s.Max = at, at
	}
	s.Min, s.Max = min(s.Min, at), max(s.Max, at)
	s.Count++
}

// AppendHeader appends the payload of a header.
func AppendHeader(b []byte, h *Header) []byte {
	b = append(b, kindHeader, formatVersion)
	b = binary.AppendUvarint(b, h.Expired)
	b = binary.AppendUvarint(b, h.Lost)
	b = binary.AppendUvarint(b, uint64(len(h.Streams)))
	for _, s := range h.Streams {
		b = appendString(b, s.Name)
		b = binary.AppendUvarint(b, s.Seq)
		b = binary.AppendVarint(b, s.Last)
		b = binary.AppendUvarint(b, s.Lost)
	}
	b = binary.AppendUvarint(b, uint64(len(h.Segments)))
	for _, s := range h.Segments {
		b = binary.AppendUvarint(b, s.Number)
		b = binary.AppendVarint(b, s.Size)
		b = binary.AppendUvarint(b, s.Count)
		b = binary.AppendVarint(b, s.Min)
		b = binary.AppendVarint(b, s.Max)
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

func parseHeader(payload []byte) (*Header, bool) {
	if len(payload) < 2 || payload[0] != kindHeader || payload[1] != formatVersion && payload[1] != withoutLosses {
		return nil, false
	}
	losses := payload[1] != withoutLosses
	f := fields{b: payload[2:]}
	h := &Header{Expired: f.uint()}
	if losses {
		h.Lost = f.uint()
	}
	for range f.count() {
		m := StreamMark{Name: f.string(), Seq: f.uint(), Last: f.int()}
		if losses {
			m.Lost = f.uint()
		}
		h.Streams = append(h.Streams, m)
	}
	for range f.count() {
		h.Segments = append(h.Segments, Segment{f.uint(), f.int(), f.uint(), f.int(), f.int()})
	}
	ordered := slices.IsSortedFunc(h.Segments, func(a, b Segment) int {
		if a.Number < b.Number {
			return -1
		}
		return 1
	})
	return h, !f.bad && len(f.b) == 0 && ordered
}

// Line is one line in a segment. Its text shares the buffer.
type Line struct {
	At     int64
	Order  uint64 // by arrival: the segment's number and the index in it
	Seq    uint64
	Origin *Origin
	Text   []byte
	Stderr bool
}

// errTorn means that a segment does not end with a complete frame.
var errTorn = errors.New("not a whole frame")

// Scanner reads a segment from its start, or continues with more of it.
type Scanner struct {
	Buf     []byte
	Off     int  // everything before it is valid
	Middle  bool // Buf does not start with the segment
	Header  *Header
	origins []*Origin
	before  int64
	Loss    func(stream string, n uint64) // called for losses, unless nil
}

// Next moves to the next line. It returns false at the end, or with errTorn if the rest
// cannot be read.
func (s *Scanner) Next(into *Line) (bool, error) {
	for s.Off < len(s.Buf) {
		payload, size := cutFrame(s.Buf[s.Off:])
		if size == 0 || len(payload) == 0 {
			return false, errTorn
		}
		kind := payload[0]
		if (kind == kindHeader) != (s.Off == 0 && !s.Middle) {
			return false, errTorn
		}
		switch kind {
		case kindHeader:
			h, ok := parseHeader(payload)
			if !ok {
				return false, errTorn
			}
			s.Header = h
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
			if s.Loss != nil {
				s.Loss(stream, n)
			}
		case kindOut, kindErr:
			f := fields{b: payload[1:]}
			id, delta, seq := f.uint(), f.int(), f.uint()
			if f.bad || id >= uint64(len(s.origins)) {
				return false, errTorn
			}
			s.before += delta
			*into = Line{At: s.before, Order: uint64(s.Off), Seq: seq, Origin: s.origins[id], Text: f.b, Stderr: kind == kindErr}
			s.Off += size
			return true, nil
		default:
			return false, errTorn
		}
		s.Off += size
	}
	return false, nil
}

func parseOrigin(payload []byte) (*Origin, bool) {
	f := fields{b: payload[1:]}
	o := &Origin{Stream: f.string(), Source: f.string(), Instance: f.string()}
	if n := f.count(); n > 0 {
		o.Tags = make(map[string]string, min(n, 64))
		for range n {
			k := f.string()
			o.Tags[k] = f.string()
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
