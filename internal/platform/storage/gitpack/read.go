package gitpack

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // git identifies objects by it; see the package comment
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/klauspost/compress/zlib"

	"ingot/internal/base/fault"
)

// headerSize and trailerSize are the bytes of a pack around its objects.
const (
	headerSize  = 12
	trailerSize = sha1.Size
)

// pending is a difference whose object is not known yet.
type pending struct {
	start      int64 // of the entry
	packed     int64 // of its compressed data
	packedSize int64
	size       int64 // of the difference
	baseStart  int64 // of the base's entry, or 0
	base       Hash
}

// reader reads one pack.
type reader struct {
	*Objects
	start int64 // of the pack in packs
	in    *bufio.Reader
	at    int64 // in packs, of the next byte
	zip   io.ReadCloser
	sum   hash.Hash

	deltas []pending
	// starts are the objects of this pack by the start of their entry, and waiting the
	// differences by what they wait for.
	starts  map[int64]int32
	onStart map[int64][]int32
	onHash  map[Hash][]int32
	base    []byte // a buffer
}

// Read adds the objects of a pack. Differences may be from objects of packs that were added
// before.
func (o *Objects) Read(in io.Reader) error {
	r := &reader{Objects: o, start: o.packs.size(), sum: sha1.New(), starts: map[int64]int32{}, //nolint:gosec // as above
		onStart: map[int64][]int32{}, onHash: map[Hash][]int32{}}
	count, size, err := r.receive(in)
	if err != nil {
		return err
	}
	r.at = r.start + headerSize
	r.in = bufio.NewReaderSize(o.packs.section(r.at, size-headerSize), 64<<10)
	for range count {
		if err := r.entry(); err != nil {
			return err
		}
	}
	if r.at != r.start+size-trailerSize {
		return damaged("it has more than its %d objects", count)
	}
	return r.resolve()
}

// receive copies a pack to the file and checks its checksum.
func (r *reader) receive(in io.Reader) (count int, size int64, err error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(in, header[:]); err != nil {
		return 0, 0, ended(err)
	}
	if string(header[:4]) != "PACK" || binary.BigEndian.Uint32(header[4:]) != 2 {
		return 0, 0, refused("the data is not a git pack of version 2")
	}
	n := binary.BigEndian.Uint32(header[8:])
	if int64(n)+int64(len(r.list)) > int64(r.limits.Objects) {
		return 0, 0, fault.New(fault.TooLarge, "the repository with its history has more than %d objects: push the files "+
			"without the history, with git push --force ingot $(git commit-tree -m deploy HEAD^{tree}):main", r.limits.Objects)
	}
	// The trailer is not part of the checksum, so the last bytes are held back.
	if _, err := r.packs.Write(header[:]); err != nil {
		return 0, 0, err
	}
	r.sum.Write(header[:])
	held := make([]byte, 0, 64<<10+trailerSize)
	chunk := make([]byte, 64<<10)
	for {
		got, err := in.Read(chunk)
		held = append(held, chunk[:got]...)
		if more := len(held) - trailerSize; more > 0 {
			r.sum.Write(held[:more])
			if _, err := r.packs.Write(held[:more]); err != nil {
				return 0, 0, err
			}
			held = append(held[:0], held[more:]...)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, 0, err
		}
	}
	if !bytes.Equal(held, r.sum.Sum(nil)) {
		return 0, 0, damaged("its checksum is wrong")
	}
	_, err = r.packs.Write(held)
	return int(n), r.packs.size() - r.start, err
}

func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("it ends early")
	}
	return err
}

// ReadByte implements io.ByteReader, with which zlib reads no byte too many.
func (r *reader) ReadByte() (byte, error) {
	b, err := r.in.ReadByte()
	if err == nil {
		r.at++
	}
	return b, err
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	r.at += int64(n)
	return n, err
}

// entry reads the next object of the pack, or remembers a difference.
func (r *reader) entry() error {
	d := pending{start: r.at}
	k, size, err := r.head()
	if err != nil {
		return err
	}
	switch d.size = size; k {
	case commit, tree, blob, tag:
	case ofsDelta:
		back, err := baseDistance(r)
		if err != nil {
			return err
		}
		if back <= 0 || back > d.start-r.start-headerSize {
			return damaged("a difference is from nothing")
		}
		d.baseStart = d.start - back
	case refDelta:
		if _, err := io.ReadFull(r, d.base[:]); err != nil {
			return ended(err)
		}
	default:
		return damaged("an object has the unknown type %d", k)
	}
	d.packed = r.at
	if err := r.inflate(); err != nil {
		return err
	}
	if k == ofsDelta || k == refDelta {
		n, err := io.Copy(io.Discard, io.LimitReader(r.zip, size+1))
		if err := r.end(n, size, err); err != nil {
			return err
		}
		d.packedSize = r.at - d.packed
		i := int32(len(r.deltas)) // limited
		r.deltas = append(r.deltas, d)
		if k == ofsDelta {
			r.onStart[d.baseStart] = append(r.onStart[d.baseStart], i)
		} else {
			r.onHash[d.base] = append(r.onHash[d.base], i)
		}
		return nil
	}
	at, sum := r.spill.size(), objectSum(k, size)
	n, err := io.Copy(io.MultiWriter(r.spill, sum), io.LimitReader(r.zip, size+1))
	if err := r.end(n, size, err); err != nil {
		return err
	}
	return r.add(d.start, object{hash: Hash(sum.Sum(nil)), kind: k, base: none, at: at, size: size, packed: d.packed,
		packedSize: r.at - d.packed})
}

// end checks that an object has the size that it claims.
func (r *reader) end(n, size int64, err error) error {
	var known *fault.Error
	switch {
	case errors.As(err, &known):
		return err
	case err != nil:
		return damaged("an object cannot be read: %v", err)
	case n != size:
		return damaged("an object has not the size of %d bytes that it claims", size)
	}
	// Reads the checksum of the compressed data.
	if n, err := r.zip.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return damaged("an object cannot be read: %v", err)
	}
	return nil
}

func (r *reader) inflate() (err error) {
	if r.zip == nil {
		r.zip, err = zlib.NewReader(r)
	} else {
		err = r.zip.(zlib.Resetter).Reset(r, nil)
	}
	if err != nil {
		return damaged("an object cannot be read: %v", err)
	}
	return nil
}

// head reads type and size of an entry, within the limits.
func (r *reader) head() (kind, int64, error) {
	k, size, err := readHead(r)
	if err != nil {
		return 0, 0, err
	}
	if size > r.limits.Bytes {
		return 0, 0, tooLarge(r.limits.Bytes)
	}
	return k, size, r.unpack(size)
}

// readHead reads type and size of an entry.
func readHead(in io.ByteReader) (kind, int64, error) {
	b, err := in.ReadByte()
	if err != nil {
		return 0, 0, ended(err)
	}
	k, size := kind(b>>4&7), int64(b&15)
	for shift := 4; b&0x80 != 0; shift += 7 {
		if b, err = in.ReadByte(); err != nil {
			return 0, 0, ended(err)
		}
		if shift > 48 {
			return 0, 0, damaged("an object claims to be larger than a disk")
		}
		size |= int64(b&0x7f) << shift
	}
	return k, size, nil
}

// baseDistance reads how far before an entry its base is.
func baseDistance(in io.ByteReader) (int64, error) {
	var n int64
	for i := 0; ; i++ {
		b, err := in.ReadByte()
		if err != nil {
			return 0, ended(err)
		}
		n |= int64(b & 0x7f)
		if b&0x80 == 0 {
			return n, nil
		}
		if i > 6 {
			return 0, damaged("a difference is from nothing")
		}
		n = (n + 1) << 7
	}
}

func objectSum(k kind, size int64) hash.Hash {
	sum := sha1.New() //nolint:gosec // as above
	fmt.Fprintf(sum, "%s %d\x00", kindNames[k], size)
	return sum
}

// add stores an object of the pack. One that is known already keeps its first form, so that
// differences never lead in a circle.
func (r *reader) add(start int64, o object) error {
	i, known := r.index[o.hash]
	if known {
		if err := r.spill.truncate(o.at); err != nil {
			return err
		}
	} else {
		i = int32(len(r.list)) // limited
		r.list = append(r.list, o)
		r.index[o.hash] = i
	}
	r.starts[start] = i
	return nil
}

// resolve turns differences into objects, from bases to what depends on them.
func (r *reader) resolve() error {
	if len(r.deltas) == 0 {
		return nil
	}
	type ready struct {
		start int64 // 0 for an object of another pack
		of    int32
	}
	var queue []ready
	for start, i := range r.starts {
		queue = append(queue, ready{start, i})
	}
	for base := range r.onHash {
		if i, ok := r.index[base]; ok {
			queue = append(queue, ready{0, i})
		}
	}
	left := len(r.deltas)
	for len(queue) > 0 {
		next := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, w := range r.waiting(next.start, r.list[next.of].hash) {
			d := &r.deltas[w]
			left--
			if err := r.apply(d, next.of); err != nil {
				return err
			}
			queue = append(queue, ready{d.start, r.starts[d.start]})
		}
	}
	if left > 0 {
		return &MissingError{"a difference is from an object that the server does not have"}
	}
	return nil
}

// waiting returns the differences from an object, once: a pack may have the object many times.
func (r *reader) waiting(start int64, h Hash) []int32 {
	all := slices.Concat(r.onStart[start], r.onHash[h])
	delete(r.onStart, start)
	delete(r.onHash, h)
	return all
}

// MissingError means that a pack needs objects that it does not have.
type MissingError struct{ what string }

func (e *MissingError) Error() string { return e.what }
