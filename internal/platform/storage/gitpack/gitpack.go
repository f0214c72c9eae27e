package gitpack

import (
	"encoding/hex"
	"fmt"
	"os"

	"ingot/internal/base/fault"
)

// Hash is the SHA-1 of an object.
type Hash [20]byte

// ParseHash parses 40 hexadecimal digits.
func ParseHash(text string) (h Hash, ok bool) {
	if len(text) != 2*len(h) {
		return h, false
	}
	_, err := hex.Decode(h[:], []byte(text))
	return h, err == nil
}

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether it stands for no object.
func (h Hash) IsZero() bool { return h == Hash{} }

// Limits bound what is read. Fields that are not positive have their default.
type Limits struct {
	// Objects is the number of objects, of all packs together: 250,000.
	Objects int
	// Bytes is the sum of the packs and of what is in them: 1 GiB.
	Bytes int64
	// Files is the number of files and folders of a commit: 100,000.
	Files int
}

const (
	defaultObjects = 250_000
	defaultBytes   = 1 << 30
	defaultFiles   = 100_000
	// maxChain is how many differences may follow each other; git makes chains of 50, and at
	// most 4095.
	maxChain = 4095
	// maxParsed limits commits and trees, which are read into memory: a folder with 100,000
	// files has about 5 MB.
	maxParsed = 16 << 20
	// maxDepth is how many folders a file may be in.
	maxDepth = 100
	maxPath  = 4096
	maxName  = 255
	// maxPaths limits the sum of the paths of all files, which are held in memory: 100,000 files may have 335
	// bytes each.
	maxPaths = 32 << 20
	// maxWork is how many times the limit of bytes may be unpacked in all. Objects that are known already and
	// differences take no space in the end, but time.
	maxWork = 4
)

func (l Limits) withDefaults() Limits {
	if l.Objects <= 0 {
		l.Objects = defaultObjects
	}
	if l.Bytes <= 0 {
		l.Bytes = defaultBytes
	}
	if l.Files <= 0 {
		l.Files = defaultFiles
	}
	return l
}

// kind is the type of an object in a pack.
type kind uint8

const (
	commit   kind = 1
	tree     kind = 2
	blob     kind = 3
	tag      kind = 4
	ofsDelta kind = 6
	refDelta kind = 7
)

var kindNames = map[kind]string{commit: "commit", tree: "tree", blob: "blob", tag: "tag"}

// object is where the content of an object is, and its compressed form.
type object struct {
	hash  Hash
	kind  kind
	chain uint16 // how many differences lead to it
	base  int32  // the object that its compressed form is a difference from, or none
	delta int64  // the size of that difference
	at    int64  // in the spill
	size  int64
	// packed is where its compressed data is in the packs.
	packed, packedSize int64
}

const none = int32(-1)

// Objects are the objects of some packs.
type Objects struct {
	limits Limits
	// packs has the bytes of all packs, spill the contents of all objects.
	packs, spill *spill
	list         []object
	index        map[Hash]int32
	work         int64 // bytes that were unpacked
}

// New returns a set without objects, with its temporary files in dir.
func New(dir string, l Limits) (*Objects, error) {
	o := &Objects{limits: l.withDefaults(), index: map[Hash]int32{}}
	used := new(int64)
	for _, s := range []**spill{&o.packs, &o.spill} {
		file, err := os.CreateTemp(dir, "git-")
		if err == nil {
			err = os.Remove(file.Name())
		}
		if err != nil {
			o.Close()
			return nil, fmt.Errorf("temporary file of a git push: %w", err)
		}
		*s = &spill{file: file, used: used, limit: o.limits.Bytes}
	}
	return o, nil
}

// Close frees the temporary files.
func (o *Objects) Close() {
	for _, s := range []*spill{o.packs, o.spill} {
		if s != nil {
			_ = s.file.Close()
		}
	}
}

// Used returns how many bytes the temporary files have.
func (o *Objects) Used() int64 { return *o.spill.used }

// unpack counts bytes that are about to be unpacked.
func (o *Objects) unpack(n int64) error {
	if o.work += n; o.work > maxWork*o.limits.Bytes {
		return fault.New(fault.TooLarge, "the pack has more than %d MB to unpack: it repeats its objects",
			maxWork*o.limits.Bytes>>20)
	}
	return nil
}

// refused returns the error for a pack that cannot be used.
func refused(format string, args ...any) error {
	return fault.New(fault.Unprocessable, format, args...)
}

func damaged(format string, args ...any) error {
	return refused("the pack is damaged: "+format, args...)
}

func tooLarge(limit int64) error {
	return fault.New(fault.TooLarge, "the repository with its history is larger than the limit of %d MB: push the files "+
		"without the history, with git push --force ingot $(git commit-tree -m deploy HEAD^{tree}):main", limit>>20)
}
