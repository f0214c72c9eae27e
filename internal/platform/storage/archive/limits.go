package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"syscall"
	"time"

	"ingot/internal/base/fault"
)

// Limits is how much of an archive is accepted. Fields that are not positive have
// their default.
type Limits struct {
	// Files is the number of entries, and of files, links and directories they
	// make, those included that are only implied by a name. 100 000.
	Files int
	// Size is the sum of the files in bytes, inflated; a hard link counts like a
	// copy. 2 GiB.
	Size int64
	// FileSize is the size of one file, inflated. As Size.
	FileSize int64
	// Depth is the number of parts of a name. 128.
	Depth int
	// Ratio is how many inflated bytes there may be for each byte of the archive,
	// beyond the first 64 MiB. 200. Deflate cannot do more than about 1000, text is
	// about 4, and long rows of zeroes are what a bomb is made of.
	Ratio int64
	// OutsideLinks allows symbolic links that are absolute or point outside the
	// root. A droplet has such links, because inside its container they are right.
	// Extraction is as safe as without, but the directory has to be read
	// through os.Root later.
	OutsideLinks bool
}

// DefaultFiles is the default of Limits.Files.
const DefaultFiles = 100_000

const (
	maxName   = 4096 // bytes of a name, or of a link's target
	maxPart   = 255  // bytes between two slashes: what file systems store
	ratioFree = 64 << 20
)

func (l Limits) withDefaults() Limits {
	if l.Files <= 0 {
		l.Files = DefaultFiles
	}
	if l.Size <= 0 {
		l.Size = 2 << 30
	}
	if l.FileSize <= 0 || l.FileSize > l.Size {
		l.FileSize = l.Size
	}
	if l.Depth <= 0 {
		l.Depth = 128
	}
	if l.Ratio <= 0 {
		l.Ratio = 200
	}
	return l
}

// Kind is what an entry is.
type Kind int

// The kinds of entries that are accepted. All others are refused.
const (
	Dir Kind = iota + 1
	File
	Symlink
	Hardlink
)

func (k Kind) String() string {
	switch k {
	case Dir:
		return "directory"
	case File:
		return "file"
	case Symlink:
		return "symbolic link"
	case Hardlink:
		return "hard link"
	}
	return "entry of kind " + strconv.Itoa(int(k))
}

// Entry is one entry of an archive, its name and mode made harmless.
type Entry struct {
	// Path is clean and relative to the root, with slashes; "." is the root itself.
	Path string
	Kind Kind
	// Mode has permission bits only.
	Mode fs.FileMode
	// Size is what the archive says; what comes may be less or more.
	Size     int64
	Modified time.Time
	// Target of a symbolic link is as the archive has it; of a hard link, it is the
	// Path of an earlier file.
	Target string
	// User and Group own the entry; only tar archives have them.
	User, Group int
}

// Summary is what an archive holds.
type Summary struct {
	Files int // hard links included
	Dirs  int // those only implied included, the root not
	Links int // symbolic ones
	// Size is what was inflated, so a file that comes twice counts twice.
	Size int64
}

// invalid is the error for an archive as a whole.
func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Unprocessable, "The archive is not valid: "+format, args...)
}

// refuse is the error for one entry.
func refuse(name, format string, args ...any) *fault.Error {
	return invalid("entry %s %s", quote(name), fmt.Sprintf(format, args...))
}

// quote makes a stranger's name fit for a message.
func quote(name string) string {
	const most = 200
	if len(name) > most {
		return strconv.Quote(name[:most]) + "…"
	}
	return strconv.Quote(name)
}

// bytesText writes limits, which are round numbers, so that they can be read.
func bytesText(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size && n%unit.size == 0 {
			return fmt.Sprintf("%d %s", n/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// onDisk gives a failure to write the entry called name its meaning.
func onDisk(err error, name string) error {
	var known *fault.Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case fault.IsDiskFull(err):
		return fault.Wrap(err, fault.InsufficientStorage,
			"The disk of the server is full (extracting %s): nothing was kept, try again when there is room", quote(name))
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EILSEQ):
		e := refuse(name, "has a name that cannot be stored")
		e.Err = err
		return e
	}
	return fmt.Errorf("extract %s: %w", quote(name), err)
}
