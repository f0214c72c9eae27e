package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"
)

// ExtractTar writes the entries of a tar, plain or compressed with gzip, into dir,
// which is created if missing and must otherwise be empty. After an error it
// is empty.
//
// Permission bits and times of files and directories are those of the archive; a
// directory that is only implied by a name gets 0755. The mode of dir itself is
// left to the caller.
func ExtractTar(r io.Reader, dir string, l Limits) (Summary, error) {
	return extract(dir, func(visit Visit) (Summary, error) { return WalkTar(r, l, visit) })
}

func extract(dir string, walk func(Visit) (Summary, error)) (Summary, error) {
	return (&disk{}).extract(dir, walk)
}

func (d *disk) extract(dir string, walk func(Visit) (Summary, error)) (sum Summary, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Summary{}, onDisk(err, ".")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Summary{}, err
	}
	defer root.Close()
	names, err := list(root)
	if err != nil {
		return Summary{}, err
	}
	if len(names) > 0 {
		return Summary{}, fmt.Errorf("extract to %s: the directory is not empty", dir)
	}

	d.root, d.made, d.buf = root, map[string]Entry{}, make([]byte, 128<<10)
	defer d.leave()
	if sum, err = walk(d.visit); err == nil {
		err = d.finish()
	}
	if err != nil {
		d.leave()
		if left := d.clear(); left != nil {
			err = errors.Join(err, left)
		}
		return Summary{}, err
	}
	return sum, nil
}

func list(root *os.Root) ([]string, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// disk writes entries below a directory that was empty.
type disk struct {
	root *os.Root
	made map[string]Entry // the directories, with the mode and time they get at the end
	// links are made when everything else is there and all of them were checked.
	links []Entry
	buf   []byte
	// owned keeps the owners of the archive. It needs root.
	owned bool

	// in is the directory of the last file, kept open because the next file is
	// most likely in the same.
	in     *os.Root
	inPath string
}

func (d *disk) visit(e Entry, body io.Reader) error {
	var err error
	switch e.Kind {
	case Dir:
		err = d.mkdir(e.Path, &e)
	case Symlink:
		d.links = append(d.links, e)
	case Hardlink:
		err = d.link(e)
	default:
		err = d.file(e, body)
	}
	return onDisk(err, e.Path)
}

// mkdir makes a directory and those above it. Meta is nil for one that is only
// implied.
func (d *disk) mkdir(name string, meta *Entry) error {
	if name == "." {
		return nil
	}
	if _, made := d.made[name]; !made {
		if err := d.mkdir(path.Dir(name), nil); err != nil {
			return err
		}
		if err := d.root.Mkdir(name, 0o700); err != nil {
			return err
		}
		d.made[name] = Entry{Mode: 0o755}
	}
	if meta != nil {
		d.made[name] = *meta
	}
	return nil
}

// enter returns the directory that a name is in, and the rest of the name.
func (d *disk) enter(name string) (*os.Root, string, error) {
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	if dir == "." {
		return d.root, base, nil
	}
	if d.in != nil && d.inPath == dir {
		return d.in, base, nil
	}
	if err := d.mkdir(dir, nil); err != nil {
		return nil, "", err
	}
	d.leave()
	in, err := d.root.OpenRoot(dir)
	if err != nil {
		return nil, "", err
	}
	d.in, d.inPath = in, dir
	return in, base, nil
}

func (d *disk) leave() {
	if d.in != nil {
		_ = d.in.Close() // only a handle of a directory
		d.in = nil
	}
}

func (d *disk) file(e Entry, body io.Reader) error {
	in, base, err := d.enter(e.Path)
	if err != nil {
		return err
	}
	create := func() (*os.File, error) {
		return in.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	f, err := create()
	if errors.Is(err, fs.ErrExist) { // comes twice: not written over, it may have other names
		if err = in.Remove(base); err == nil {
			f, err = create()
		}
	}
	if err != nil {
		return err
	}
	// Only the interface is passed, so that our buffer is used and not a new one.
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{body}, d.buf)
	if err == nil && d.owned {
		err = f.Chown(e.User, e.Group)
	}
	if err == nil {
		err = f.Chmod(e.Mode)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if e.Mode&0o111 != 0 {
		if err := settle(in, base); err != nil {
			return err
		}
	}
	return setTime(in, base, e.Modified)
}

func (d *disk) link(e Entry) error {
	if err := d.mkdir(path.Dir(e.Path), nil); err != nil {
		return err
	}
	err := d.root.Link(e.Target, e.Path)
	if errors.Is(err, fs.ErrExist) {
		if err = d.root.Remove(e.Path); err == nil {
			err = d.root.Link(e.Target, e.Path)
		}
	}
	return err
}

func (d *disk) finish() error {
	made := map[string]bool{}
	for _, e := range d.links {
		if made[e.Path] {
			continue
		}
		made[e.Path] = true
		if err := d.mkdir(path.Dir(e.Path), nil); err != nil {
			return onDisk(err, e.Path)
		}
		if err := d.root.Symlink(e.Target, e.Path); err != nil {
			return onDisk(err, e.Path)
		}
		if err := d.own(e.Path, e); err != nil {
			return onDisk(err, e.Path)
		}
	}
	for name, e := range d.made {
		if err := d.own(name, e); err != nil {
			return onDisk(err, name)
		}
		if err := d.root.Chmod(name, e.Mode); err != nil {
			return onDisk(err, name)
		}
		if err := setTime(d.root, name, e.Modified); err != nil {
			return onDisk(err, name)
		}
	}
	return nil
}

func (d *disk) own(name string, e Entry) error {
	if !d.owned {
		return nil
	}
	return d.root.Lchown(name, e.User, e.Group)
}

// setTime leaves out times that no file system can keep.
func setTime(in *os.Root, name string, t time.Time) error {
	if t.Unix() <= 0 || t.Year() >= 2200 {
		return nil
	}
	return in.Chtimes(name, t, t)
}

// clear removes everything.
func (d *disk) clear() error {
	names, err := list(d.root)
	for _, name := range names {
		err = errors.Join(err, d.root.RemoveAll(name))
	}
	return err
}
