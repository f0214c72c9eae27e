package series

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	// maxScopes is the number of scopes of an app that a block has, and maxName the length of a
	// scope's name.
	maxScopes = 64
	maxName   = 300
	// format is the version of the encoding.
	format = 1
)

// Scope names what points are about: "" is the app, "web" a process, and "web/0" an instance.
func Scope(process string, index int) string { return process + "/" + strconv.Itoa(index) }

// Split returns the process and the index of a scope; index is -1 for a process or an app.
func Split(scope string) (process string, index int) {
	at := strings.LastIndexByte(scope, '/')
	if at < 0 {
		return scope, -1
	}
	index, err := strconv.Atoi(scope[at+1:])
	if err != nil {
		return scope, -1
	}
	return scope[:at], index
}

// rank is 0 for an app, 1 for a process and 2 for an instance.
func rank(scope string) int {
	switch {
	case scope == "":
		return 0
	case strings.Contains(scope, "/"):
		return 2
	}
	return 1
}

// Block has consecutive points of the scopes of an app in one resolution.
type Block struct {
	resolution Resolution
	start      int64
	scopes     map[string][]row
}

// NewBlock returns an empty block that begins at a time.
func NewBlock(r Resolution, start int64) *Block {
	return &Block{resolution: r, start: r.Block(start), scopes: map[string][]row{}}
}

// Add adds a point of a scope. A point that the block has already is combined with it: the clock was
// set back, or the server was restarted in between. Points of other times are ignored, as
// are scopes beyond the limit.
func (b *Block) Add(scope string, at int64, p *Point) {
	i := int((floor(at, b.resolution.Step) - b.start) / b.resolution.Step)
	if at < b.start || i >= b.resolution.Points || len(scope) > maxName {
		return
	}
	rows := b.scopes[scope]
	if rows == nil {
		if len(b.scopes) >= maxScopes {
			return
		}
		rows = make([]row, b.resolution.Points)
		b.scopes[scope] = rows
	}
	if rows[i] != (row{}) {
		old, sum := rows[i].point(), newMean()
		sum.add(&old)
		sum.add(p)
		both := sum.point()
		p = &both
	}
	rows[i] = encodePoint(p, 0)
}

// Missing reports whether a scope has no point at a time that the block covers.
func (b *Block) Missing(scope string, at int64) bool {
	i := (floor(at, b.resolution.Step) - b.start) / b.resolution.Step
	if at < b.start || i >= int64(b.resolution.Points) {
		return false
	}
	rows, ok := b.scopes[scope]
	return !ok || rows[i] == (row{})
}

// Scopes returns the scopes, sorted.
func (b *Block) Scopes() []string { return slices.Sorted(maps.Keys(b.scopes)) }

// ordered returns the scopes of at most a rank, those that matter most first.
func (b *Block) ordered(most int) []string {
	all := slices.DeleteFunc(b.Scopes(), func(s string) bool { return rank(s) > most })
	slices.SortStableFunc(all, func(x, y string) int { return rank(x) - rank(y) })
	return all
}

// attempts are the ways to store a block, by the scopes and the bits of precision that are left out.
var attempts = []struct{ rank, drop int }{
	{2, 0}, {2, 3}, {1, 0}, {1, 3}, {0, 0}, {0, 3}, {0, 5}, {0, precision},
}

// Encode returns the block as bytes, at most as many as its resolution allows. A block that would
// be larger is stored with a lower precision, then without instances, then without processes.
func (b *Block) Encode() []byte {
	for _, try := range attempts {
		if data := b.encode(b.ordered(try.rank), try.drop); len(data) <= b.resolution.Bytes {
			return data
		}
	}
	return b.encode(nil, 0) // cannot be: an app alone fits with the lowest precision
}

var compressors = sync.Pool{New: func() any {
	w, err := flate.NewWriter(io.Discard, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is valid
	}
	return w
}}

var unpackers = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}

// encode writes columns of differences: a column that does not change costs almost nothing.
func (b *Block) encode(scopes []string, drop int) []byte {
	raw := binary.AppendUvarint(nil, uint64(len(scopes)))
	for _, scope := range scopes {
		raw = append(binary.AppendUvarint(raw, uint64(len(scope))), scope...)
		rows := b.scopes[scope]
		for f := range fields {
			last := int64(0)
			for i := range rows {
				code := int64(coarse(rows[i][f], drop))
				raw = binary.AppendVarint(raw, code-last)
				last = code
			}
		}
	}
	out := bytes.NewBuffer([]byte{format, byte(drop)})
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	w.Reset(out)
	_, _ = w.Write(raw) // a buffer takes all
	_ = w.Close()
	return out.Bytes()
}

// coarse drops bits of a code, and fine adds zeros for them.
func coarse(code uint16, drop int) uint16 {
	if code < firstCode {
		return code
	}
	return (code-firstCode)>>drop + firstCode
}

func fine(code uint16, drop int) uint16 {
	if code < firstCode {
		return code
	}
	return (code-firstCode)<<drop + firstCode
}

// errDamaged means that stored bytes are no block.
var errDamaged = errors.New("a stored block of points is damaged")

// Decode reads a block.
func Decode(r Resolution, start int64, data []byte) (*Block, error) {
	if len(data) < 2 || data[0] != format || data[1] > precision {
		return nil, errDamaged
	}
	drop := int(data[1])
	// A hostile block must not fill the memory.
	most := int64(maxScopes) * int64(maxName+10+int(fields)*r.Points*binary.MaxVarintLen16)
	unpacker := unpackers.Get().(io.ReadCloser)
	defer unpackers.Put(unpacker)
	if err := unpacker.(flate.Resetter).Reset(bytes.NewReader(data[2:]), nil); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(unpacker, most+1))
	if err != nil || int64(len(raw)) > most {
		return nil, errDamaged
	}
	b := NewBlock(r, start)
	n, raw, ok := uvarint(raw, maxScopes)
	for ; ok && n > 0; n-- {
		var name uint64
		if name, raw, ok = uvarint(raw, min(maxName, uint64(len(raw)))); !ok || uint64(len(raw)) < name {
			return nil, errDamaged
		}
		scope := string(raw[:name])
		raw = raw[name:]
		rows := make([]row, r.Points)
		for f := range fields {
			last := int64(0)
			for i := range rows {
				difference, read := binary.Varint(raw)
				last += difference
				if read <= 0 || last < 0 || last > int64(coarse(lastCode, drop)) {
					return nil, errDamaged
				}
				raw, rows[i][f] = raw[read:], fine(uint16(last), drop)
			}
		}
		b.scopes[scope] = rows
	}
	if !ok {
		return nil, errDamaged
	}
	return b, nil
}

func uvarint(raw []byte, most uint64) (n uint64, rest []byte, ok bool) {
	n, read := binary.Uvarint(raw)
	if read <= 0 || n > most {
		return 0, raw, false
	}
	return n, raw[read:], true
}
