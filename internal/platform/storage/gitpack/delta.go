package gitpack

import (
	"bufio"
	"errors"
	"hash"
	"io"

	"ingot/internal/base/fault"
)

// small is the size up to which a base, or a result, is held in memory.
const small = 1 << 20

// delta is a difference that is being applied.
type delta struct {
	in   *bufio.Reader
	left int64 // bytes of the difference
	// base is the content of the base if it is small.
	base     []byte
	from     *spill
	at, size int64 // of the base
	out      io.Writer
}

// apply makes an object of its base and a difference.
func (r *reader) apply(d *pending, base int32) error {
	of := r.list[base]
	if of.chain >= maxChain {
		return damaged("more than %d differences follow each other", maxChain)
	}
	r.in = bufio.NewReaderSize(r.packs.section(d.packed, d.packedSize), 16<<10)
	if err := r.inflate(); err != nil {
		return err
	}
	a := &delta{in: bufio.NewReaderSize(io.LimitReader(r.zip, d.size), 16<<10), left: d.size, from: r.spill, at: of.at,
		size: of.size}
	baseSize, err := a.number()
	if err != nil {
		return err
	}
	if baseSize != of.size {
		return damaged("a difference is from an object of another size")
	}
	size, err := a.number()
	if err != nil {
		return err
	}
	if size > r.limits.Bytes {
		return tooLarge(r.limits.Bytes)
	}
	if err := r.unpack(size); err != nil {
		return err
	}
	if of.size <= small {
		if r.base, err = r.spill.content(&of, r.base); err != nil {
			return err
		}
		a.base = r.base
	}
	at, sum := r.spill.size(), objectSum(of.kind, size)
	if err := r.write(a, sum, size); err != nil {
		return err
	}
	return r.add(d.start, object{hash: Hash(sum.Sum(nil)), kind: of.kind, chain: of.chain + 1, base: base,
		delta: d.size, at: at, size: size, packed: d.packed, packedSize: d.packedSize})
}

// write appends the result of a difference to the spill. A large base is read from there, so
// a large result is written to it piece by piece.
func (r *reader) write(a *delta, sum hash.Hash, size int64) error {
	left := size
	a.out = io.MultiWriter(r.spill, sum)
	for a.left > 0 {
		n, err := a.step(left)
		if err != nil {
			return err
		}
		left -= n
	}
	if left != 0 {
		return damaged("the result of a difference is %d bytes short", left)
	}
	return nil
}

// step copies from the base or the difference, and returns how many bytes.
func (a *delta) step(left int64) (int64, error) {
	op, err := a.byte()
	if err != nil {
		return 0, err
	}
	if op == 0 {
		return 0, damaged("a difference has an unknown instruction")
	}
	if op < 0x80 {
		n := int64(op)
		if n > left || n > a.left {
			return 0, damaged("the result of a difference is too long")
		}
		a.left -= n
		return n, readable(io.CopyN(a.out, a.in, n))
	}
	var at, n int64
	for i := range 7 {
		if op>>i&1 == 0 {
			continue
		}
		b, err := a.byte()
		if err != nil {
			return 0, err
		}
		if i < 4 {
			at |= int64(b) << (8 * i)
		} else {
			n |= int64(b) << (8 * (i - 4))
		}
	}
	if n == 0 {
		n = 0x10000
	}
	switch {
	case at+n > a.size:
		return 0, damaged("a difference copies from behind the end of its base")
	case n > left:
		return 0, damaged("the result of a difference is too long")
	case a.base != nil:
		_, err := a.out.Write(a.base[at : at+n])
		return n, err
	}
	return n, readable(io.CopyN(a.out, a.from.section(a.at+at, n), n))
}

func readable(_ int64, err error) error {
	var known *fault.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return ended(err)
}

func (a *delta) byte() (byte, error) {
	if a.left--; a.left < 0 {
		return 0, damaged("a difference ends early")
	}
	b, err := a.in.ReadByte()
	if err != nil {
		return 0, ended(err)
	}
	return b, nil
}

// number reads a size, seven bits at a time.
func (a *delta) number() (n int64, err error) {
	for shift := 0; ; shift += 7 {
		b, err := a.byte()
		if err != nil {
			return 0, err
		}
		if shift > 49 {
			return 0, damaged("an object claims to be larger than a disk")
		}
		n |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			return n, nil
		}
	}
}
