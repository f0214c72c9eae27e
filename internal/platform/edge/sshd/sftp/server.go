package sftp

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Status codes.
const (
	statusOK          = 0
	statusEOF         = 1
	statusNoFile      = 2
	statusDenied      = 3
	statusFailure     = 4
	statusBadMessage  = 5
	statusUnsupported = 8
)

var (
	errUnsupported = errors.New("operation not supported")
	errHandle      = errors.New("no such handle")
	errHandles     = errors.New("too many open files")
)

// Serve answers requests until r ends, which is not an error. Relative paths are relative
// to the current directory.
func Serve(r io.Reader, w io.Writer) error {
	s := &server{in: bufio.NewReaderSize(r, 64<<10), out: bufio.NewWriterSize(w, 64<<10), handles: map[string]*handle{}}
	defer s.close()
	for {
		kind, payload, buffer, err := readPacket(s.in, s.buffer)
		s.buffer = buffer
		if errors.Is(err, io.EOF) {
			return s.out.Flush()
		}
		if err != nil {
			return err
		}
		if _, err := s.out.Write(s.handle(kind, &parser{b: payload})); err != nil {
			return err
		}
		// Responses to buffered requests are sent together.
		if s.in.Buffered() == 0 {
			if err := s.out.Flush(); err != nil {
				return err
			}
		}
	}
}

type server struct {
	in      *bufio.Reader
	out     *bufio.Writer
	buffer  []byte
	data    []byte
	handles map[string]*handle
	last    uint64
}

// handle is an open file or directory.
type handle struct {
	file   *os.File
	dir    bool
	append bool
}

func (s *server) close() {
	for _, h := range s.handles {
		_ = h.file.Close() // the client disconnected without closing it
	}
}

// handle returns the response to one request.
func (s *server) handle(kind byte, p *parser) []byte {
	if kind == kindInit {
		return newPacket(kindVersion).uint32(3).
			string("posix-rename@openssh.com").string("1").
			string("hardlink@openssh.com").string("1").
			string("fsync@openssh.com").string("1").
			string("limits@openssh.com").string("1").
			string("expand-path@openssh.com").string("1").
			seal()
	}
	id := p.uint32()
	answer, err := s.perform(kind, id, p)
	if p.bad {
		err = errMessage
	}
	if err != nil || answer == nil {
		return status(id, err)
	}
	return answer.seal()
}

// status returns a status response.
func status(id uint32, err error) []byte {
	code := uint32(statusFailure)
	var text string
	switch {
	case err == nil:
		code, text = statusOK, "Success"
	case errors.Is(err, io.EOF):
		code, text = statusEOF, "End of file"
	case errors.Is(err, fs.ErrNotExist):
		code, text = statusNoFile, "No such file"
	case errors.Is(err, fs.ErrPermission):
		code, text = statusDenied, "Permission denied"
	case errors.Is(err, errMessage):
		code, text = statusBadMessage, "Bad message"
	case errors.Is(err, errUnsupported):
		code, text = statusUnsupported, "Operation unsupported"
	default:
		text = cause(err).Error()
	}
	return newPacket(kindStatus).uint32(id).uint32(code).string(text).string("en").seal()
}

// cause removes the path, which the client knows.
func cause(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// perform performs a request. No response and no error means success.
func (s *server) perform(kind byte, id uint32, p *parser) (packet, error) {
	switch kind {
	case kindOpen:
		return s.open(id, p.string(), p.uint32(), p.attrs(), p)
	case kindOpendir:
		return s.openDir(id, p.string(), p)
	case kindClose:
		return nil, s.closeHandle(p.string())
	case kindRead:
		return s.read(id, p.string(), p.uint64(), p.uint32())
	case kindWrite:
		return nil, s.write(p.string(), p.uint64(), p.bytes(), p)
	case kindReaddir:
		return s.readDir(id, p.string())
	case kindStat:
		return describe(id, os.Stat, p.string())
	case kindLstat:
		return describe(id, os.Lstat, p.string())
	case kindFstat:
		h, err := s.find(p.string())
		if err != nil {
			return nil, err
		}
		return describe(id, func(string) (fs.FileInfo, error) { return h.file.Stat() }, "")
	case kindFsetstat:
		h, err := s.find(p.string())
		a := p.attrs()
		if err != nil || p.bad {
			return nil, err
		}
		return nil, change(a, byFile{h.file})
	case kindRealpath:
		return s.realPath(id, p.string())
	case kindReadlink:
		target, err := os.Readlink(p.string())
		if err != nil {
			return nil, err
		}
		return name(id, target), nil
	case kindExtended:
		return s.extended(id, p)
	}
	return nil, alter(kind, p)
}

// alter performs requests that change names and attributes, but only if the whole request
// was parsed.
func alter(kind byte, p *parser) error {
	first := p.string()
	switch kind {
	case kindSetstat:
		a := p.attrs()
		if p.bad {
			return errMessage
		}
		return change(a, byName(first))
	case kindRemove:
		return remove(first, false)
	case kindMkdir:
		mode := fs.FileMode(0o777)
		if a := p.attrs(); a.flags&hasMode != 0 {
			mode = goMode(a.mode)
		}
		if p.bad {
			return errMessage
		}
		return os.Mkdir(first, mode)
	case kindRmdir:
		return remove(first, true)
	case kindRename:
		to := p.string()
		if p.bad {
			return errMessage
		}
		// Version 3 does not replace an existing file.
		if _, err := os.Lstat(to); err == nil {
			return errors.New("the file exists")
		}
		return os.Rename(first, to)
	case kindSymlink:
		// OpenSSH has the arguments in the opposite order of the standard, and all clients
		// follow it.
		link := p.string()
		if p.bad {
			return errMessage
		}
		return os.Symlink(first, link)
	}
	return errUnsupported
}

// remove removes a directory, or a file of any other kind.
func remove(path string, dir bool) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case dir && !info.IsDir():
		return syscall.ENOTDIR
	case !dir && info.IsDir():
		return syscall.EISDIR
	}
	return os.Remove(path)
}

// Flags of kindOpen.
const (
	openRead   = 1
	openWrite  = 2
	openAppend = 4
	openCreate = 8
	openTrunc  = 16
	openExcl   = 32
)

func (s *server) open(id uint32, path string, flags uint32, a attrs, p *parser) (packet, error) {
	if p.bad {
		return nil, errMessage
	}
	var how int
	switch flags & (openRead | openWrite) {
	case openRead:
		how = os.O_RDONLY
	case openWrite:
		how = os.O_WRONLY
	case openRead | openWrite:
		how = os.O_RDWR
	default:
		return nil, errMessage
	}
	for flag, bit := range map[uint32]int{
		openCreate: os.O_CREATE, openTrunc: os.O_TRUNC, openExcl: os.O_EXCL, openAppend: os.O_APPEND,
	} {
		if flags&flag != 0 {
			how |= bit
		}
	}
	mode := fs.FileMode(0o666)
	if a.flags&hasMode != 0 {
		mode = goMode(a.mode)
	}
	if len(s.handles) >= maxHandles {
		return nil, errHandles
	}
	f, err := os.OpenFile(path, how, mode)
	if err != nil {
		return nil, err
	}
	return s.add(id, &handle{file: f, append: flags&openAppend != 0}), nil
}

func (s *server) openDir(id uint32, path string, p *parser) (packet, error) {
	if p.bad {
		return nil, errMessage
	}
	if len(s.handles) >= maxHandles {
		return nil, errHandles
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return s.add(id, &handle{file: f, dir: true}), nil
}

func (s *server) add(id uint32, h *handle) packet {
	s.last++
	key := strconv.FormatUint(s.last, 10)
	s.handles[key] = h
	return newPacket(kindHandle).uint32(id).string(key)
}

func (s *server) find(key string) (*handle, error) {
	if h := s.handles[key]; h != nil {
		return h, nil
	}
	return nil, errHandle
}

func (s *server) closeHandle(key string) error {
	h, err := s.find(key)
	if err != nil {
		return err
	}
	delete(s.handles, key)
	return h.file.Close()
}

func (s *server) read(id uint32, key string, offset uint64, n uint32) (packet, error) {
	h, err := s.find(key)
	if err != nil {
		return nil, err
	}
	if h.dir || offset > 1<<62 {
		return nil, errors.New("cannot be read there")
	}
	if s.data == nil {
		s.data = make([]byte, maxData)
	}
	got, err := h.file.ReadAt(s.data[:min(n, maxData)], int64(offset))
	if got == 0 && err != nil {
		return nil, err
	}
	return append(newPacket(kindData).uint32(id).uint32(uint32(got)), s.data[:got]...), nil
}

func (s *server) write(key string, offset uint64, data []byte, p *parser) error {
	h, err := s.find(key)
	if err != nil || p.bad {
		return err
	}
	if h.dir || offset > 1<<62 {
		return errors.New("cannot be written there")
	}
	if h.append {
		_, err = h.file.Write(data)
	} else {
		_, err = h.file.WriteAt(data, int64(offset))
	}
	return err
}

// dirChunk is the number of names in one response.
const dirChunk = 100

func (s *server) readDir(id uint32, key string) (packet, error) {
	h, err := s.find(key)
	if err != nil {
		return nil, err
	}
	if !h.dir {
		return nil, syscall.ENOTDIR
	}
	for {
		entries, err := h.file.ReadDir(dirChunk)
		if err != nil {
			return nil, err
		}
		var names packet
		count := uint32(0)
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				continue // removed meanwhile
			}
			a := attrsOf(info)
			names = names.string(info.Name()).string(longName(info, a)).attrs(a)
			count++
		}
		if count > 0 {
			return append(newPacket(kindName).uint32(id).uint32(count), names...), nil
		}
	}
}

func describe(id uint32, stat func(string) (fs.FileInfo, error), path string) (packet, error) {
	info, err := stat(path)
	if err != nil {
		return nil, err
	}
	return newPacket(kindAttrs).uint32(id).attrs(attrsOf(info)), nil
}

// name returns a response with one name and no attributes.
func name(id uint32, path string) packet {
	return newPacket(kindName).uint32(id).uint32(1).string(path).string(path).attrs(attrs{})
}

// realPath returns an absolute path, with links resolved as far as it exists.
func (s *server) realPath(id uint32, path string) (packet, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return name(id, path), nil
}

func (s *server) extended(id uint32, p *parser) (packet, error) {
	switch kind := p.string(); kind {
	case "posix-rename@openssh.com", "hardlink@openssh.com":
		from, to := p.string(), p.string()
		if p.bad {
			return nil, errMessage
		}
		if strings.HasPrefix(kind, "posix") {
			return nil, os.Rename(from, to)
		}
		return nil, os.Link(from, to)
	case "fsync@openssh.com":
		h, err := s.find(p.string())
		if err != nil {
			return nil, err
		}
		return nil, h.file.Sync()
	case "limits@openssh.com":
		return newPacket(kindReply).uint32(id).uint64(maxPacket).uint64(maxData).uint64(maxData).uint64(maxHandles), nil
	case "expand-path@openssh.com":
		path := p.string()
		if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, err
			}
			path = home + rest
		}
		return s.realPath(id, path)
	}
	return nil, errUnsupported
}
