package sftp

import (
	"fmt"
	"io/fs"
	"os"
	"time"
)

// The file type bits of a mode, as in POSIX.
const (
	modeFIFO      = 0o010000
	modeChar      = 0o020000
	modeDir       = 0o040000
	modeBlock     = 0o060000
	modeRegular   = 0o100000
	modeLink      = 0o120000
	modeSocket    = 0o140000
	modeSetuid    = 0o4000
	modeSetgid    = 0o2000
	modeSticky    = 0o1000
	modePermanent = 0o777
)

// attrsOf returns the attributes of a file.
func attrsOf(info fs.FileInfo) attrs {
	a := attrs{
		flags: hasSize | hasMode | hasTimes, size: uint64(info.Size()), mode: posixMode(info.Mode()),
		atime: uint32(info.ModTime().Unix()), mtime: uint32(info.ModTime().Unix()),
	}
	addOwner(&a, info)
	return a
}

func posixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	switch m.Type() {
	case 0:
		mode |= modeRegular
	case fs.ModeDir:
		mode |= modeDir
	case fs.ModeSymlink:
		mode |= modeLink
	case fs.ModeNamedPipe:
		mode |= modeFIFO
	case fs.ModeSocket:
		mode |= modeSocket
	case fs.ModeDevice:
		mode |= modeBlock
	case fs.ModeDevice | fs.ModeCharDevice:
		mode |= modeChar
	}
	for bit, posix := range map[fs.FileMode]uint32{fs.ModeSetuid: modeSetuid, fs.ModeSetgid: modeSetgid,
		fs.ModeSticky: modeSticky} {
		if m&bit != 0 {
			mode |= posix
		}
	}
	return mode
}

// goMode returns the part of a POSIX mode that can be changed.
func goMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & modePermanent)
	for bit, posix := range map[fs.FileMode]uint32{fs.ModeSetuid: modeSetuid, fs.ModeSetgid: modeSetgid,
		fs.ModeSticky: modeSticky} {
		if mode&posix != 0 {
			m |= bit
		}
	}
	return m
}

// change sets the given attributes.
func change(a attrs, target interface {
	Truncate(int64) error
	Chmod(fs.FileMode) error
	Chown(uid, gid int) error
	Chtimes(atime, mtime time.Time) error
}) error {
	if a.flags&hasSize != 0 {
		if err := target.Truncate(int64(a.size)); err != nil {
			return err
		}
	}
	if a.flags&hasMode != 0 {
		if err := target.Chmod(goMode(a.mode)); err != nil {
			return err
		}
	}
	if a.flags&hasTimes != 0 {
		if err := target.Chtimes(time.Unix(int64(a.atime), 0), time.Unix(int64(a.mtime), 0)); err != nil {
			return err
		}
	}
	if a.flags&hasOwner != 0 {
		return target.Chown(int(a.uid), int(a.gid))
	}
	return nil
}

// byName and byFile change attributes by path and by open file.
type byName string

func (n byName) Truncate(size int64) error    { return os.Truncate(string(n), size) }
func (n byName) Chmod(m fs.FileMode) error    { return os.Chmod(string(n), m) }
func (n byName) Chown(uid, gid int) error     { return os.Chown(string(n), uid, gid) }
func (n byName) Chtimes(a, m time.Time) error { return os.Chtimes(string(n), a, m) }

type byFile struct{ *os.File }

// Chtimes works by path: if the file was renamed meanwhile, the client gets an error.
func (f byFile) Chtimes(a, m time.Time) error { return os.Chtimes(f.Name(), a, m) }

// longName returns a line as of ls -l.
func longName(info fs.FileInfo, a attrs) string {
	return fmt.Sprintf("%c%s %4d %-8d %-8d %8d %s %s",
		typeChar(info.Mode()), info.Mode().Perm().String()[1:], 1, a.uid, a.gid, info.Size(), info.ModTime().
			Format("Jan _2 15:04"), info.Name())
}

// typeChar returns the type of a file, as in ls -l.
func typeChar(m fs.FileMode) byte {
	switch m.Type() {
	case fs.ModeDir:
		return 'd'
	case fs.ModeSymlink:
		return 'l'
	case fs.ModeNamedPipe:
		return 'p'
	case fs.ModeSocket:
		return 's'
	case fs.ModeDevice:
		return 'b'
	case fs.ModeDevice | fs.ModeCharDevice:
		return 'c'
	}
	return '-'
}
