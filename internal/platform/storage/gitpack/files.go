package gitpack

import (
	"archive/zip"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/flate"

	"ingot/internal/base/fault"
)

// File is a file, a folder or a symbolic link of a commit.
type File struct {
	Path string // slash-separated
	Mode fs.FileMode
	Size int64
	of   int32
}

// Snapshot is the files of a commit.
type Snapshot struct {
	Files   []File
	Time    time.Time
	Subject string // the first line of the commit's message
	objects *Objects
}

// Snapshot returns the files of a commit, all checked: what cannot be deployed is refused.
func (o *Objects) Snapshot(of Hash) (*Snapshot, error) {
	info, err := o.commit(of)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Time: info.time, Subject: info.subject, objects: o}
	stack, paths := []folder{{info.tree, "", 0}}, 0
	for len(stack) > 0 {
		next := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if next.depth > maxDepth {
			return nil, refused("%s is in more than %d folders", quote(next.path), maxDepth)
		}
		names := map[string]bool{}
		err := o.tree(next.tree, func(e entry) error {
			if len(s.Files) >= o.limits.Files {
				return fault.New(fault.TooLarge, "the commit has more than %d files and folders", o.limits.Files)
			}
			f, err := o.checked(e, next.path, names)
			if err != nil {
				return err
			}
			if paths += len(f.Path); paths > maxPaths {
				return fault.New(fault.TooLarge, "the paths of the commit's files have more than %d MB", maxPaths>>20)
			}
			s.Files = append(s.Files, f)
			if f.Mode.IsDir() {
				stack = append(stack, folder{e.hash, f.Path, next.depth + 1})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// folder is a tree of a snapshot.
type folder struct {
	tree  Hash
	path  string
	depth int
}

// checked returns an entry of a folder, in which names are known already.
func (o *Objects) checked(e entry, folder string, names map[string]bool) (f File, err error) {
	full := path.Join(folder, e.name)
	if err := checkName(e.name, full); err != nil {
		return f, err
	}
	if names[e.name] {
		return f, refused("%s is in the commit twice", quote(full))
	}
	names[e.name] = true
	if e.mode == modeDir {
		return File{Path: full, Mode: fs.ModeDir | 0o755}, nil
	}
	return o.file(e, full)
}

// file returns a file or a link.
func (o *Objects) file(e entry, full string) (f File, err error) {
	mode := fs.FileMode(0o644)
	switch e.mode {
	case 0o100755:
		mode = 0o755
	case 0o100644, 0o100664:
	case modeLink:
		mode = fs.ModeSymlink | 0o777
	case modeSubmodule:
		return f, refused("%s is a submodule, whose files are not in the repository: add them, for "+
			"example with git subtree", quote(full))
	default:
		return f, refused("%s has the unknown mode %o", quote(full), e.mode)
	}
	i, err := o.find(e.hash, blob)
	if err != nil {
		return f, err
	}
	f = File{Path: full, Mode: mode, Size: o.list[i].size, of: i}
	if e.mode != modeLink {
		return f, nil
	}
	if f.Size > maxPath {
		return f, refused("%s is a link with a target of more than %d bytes", quote(full), maxPath)
	}
	target, err := o.spill.content(&o.list[i], nil)
	if err != nil {
		return f, err
	}
	to := path.Join(path.Dir(full), string(target))
	if path.IsAbs(string(target)) || to == ".." || strings.HasPrefix(to, "../") {
		return f, refused("%s is a link to %s, which is outside the repository", quote(full), quote(string(target)))
	}
	return f, nil
}

// checkName refuses names that could be something else on another system, or in git itself.
func checkName(name, full string) error {
	switch {
	case name == "" || name == "." || name == ".." || strings.Contains(name, "/"):
		return refused("the commit has a file with the invalid name %s", quote(name))
	case len(name) > maxName || len(full) > maxPath:
		return refused("%s has a name that is too long", quote(full))
	case !utf8.ValidString(name):
		return refused("%s has a name that is not UTF-8", quote(full))
	case strings.ContainsFunc(name, unicode.IsControl) || strings.Contains(name, `\`):
		return refused("%s has a control character or a backslash in its name", quote(full))
	}
	// Windows and macOS ignore some characters: for them, these are names of .git.
	plain := strings.TrimRight(strings.ToLower(strings.Map(visible, name)), ". ")
	if first, _, _ := strings.Cut(plain, ":"); first == ".git" || first == "git~1" {
		return refused("%s has a name that belongs to git", quote(full))
	}
	return nil
}

// visible drops the characters that a file system of macOS ignores.
func visible(r rune) rune {
	if unicode.Is(unicode.Cf, r) {
		return -1
	}
	return r
}

func quote(name string) string {
	const most = 200
	if len(name) > most {
		name = name[:most] + "…"
	}
	return strconv.Quote(name)
}

// Find returns the content of a file of the snapshot, nil if there is none. A file larger than
// the limit is refused.
func (s *Snapshot) Find(name string, limit int64) ([]byte, error) {
	for _, f := range s.Files {
		if f.Path != name || !f.Mode.IsRegular() {
			continue
		}
		if f.Size > limit {
			return nil, refused("%s is larger than %d bytes", name, limit)
		}
		return s.objects.spill.content(&s.objects.list[f.of], nil)
	}
	return nil, nil
}

// Zip writes files of the snapshot, with their paths below a folder, which "" means all.
func (s *Snapshot) Zip(w io.Writer, folder string, keep func(File) bool) (files int, err error) {
	z := zip.NewWriter(w)
	var deflate *flate.Writer // used again: a new one takes longer than a small file
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (_ io.WriteCloser, err error) {
		if deflate == nil {
			deflate, err = flate.NewWriter(w, flate.BestSpeed)
		} else {
			deflate.Reset(w)
		}
		return deflate, err
	})
	for _, f := range s.Files {
		if folder != "" {
			below, ok := strings.CutPrefix(f.Path, folder+"/")
			if !ok {
				continue
			}
			f.Path = below
		}
		if !keep(f) {
			continue
		}
		if err := s.zipFile(z, f); err != nil {
			return files, err
		}
		if !f.Mode.IsDir() {
			files++
		}
	}
	return files, z.Close()
}

func (s *Snapshot) zipFile(z *zip.Writer, f File) error {
	h := &zip.FileHeader{Name: f.Path, Method: zip.Deflate, Modified: s.Time}
	h.SetMode(f.Mode)
	if f.Mode.IsDir() {
		h.Name, h.Method = f.Path+"/", zip.Store
	}
	out, err := z.CreateHeader(h)
	if err != nil || f.Mode.IsDir() {
		return err
	}
	of := &s.objects.list[f.of]
	_, err = io.Copy(out, s.objects.spill.section(of.at, of.size))
	return err
}
