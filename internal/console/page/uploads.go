package page

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"

	"ingot/internal/base/fault"
)

const (
	// maxUpload is how much of an upload is read at most. The platform accepts less, but a browser shows the answer
	// only after it has sent everything.
	maxUpload = 16 << 30
	// maxFields limits the fields of a form with files, which are held in memory.
	maxFields = 1 << 20
)

// UploadHandler handles a form with files. The fields before the first file are in r.PostForm.
type UploadHandler func(w http.ResponseWriter, r *http.Request, s *Session, u *Upload) error

// Upload is the files of a form. They are read one after another, as they arrive.
type Upload struct {
	parts *multipart.Reader
	next  *multipart.Part
}

// File is a file of a form.
type File struct {
	io.Reader
	Field string // the name of its input
	// Path is the name of the file: in a folder, its path with the folder. Anything may be in it.
	Path string
}

// uploading checks that a request with files comes from a form of the console, and reads the fields before the files.
// The first of them is the CSRF token, so that nothing is read of a form from elsewhere.
func (c *Console) uploading(h UploadHandler) Handler {
	return func(w http.ResponseWriter, r *http.Request, s *Session) error {
		if err := c.protection.Check(r); err != nil {
			return fault.Wrap(err, fault.Forbidden, "This form was sent from another site.")
		}
		parts, err := r.MultipartReader()
		if err != nil {
			return fault.Wrap(err, fault.BadRequest, "The form cannot be read: %v", err)
		}
		u := &Upload{parts: parts}
		r.PostForm = url.Values{}
		if err := u.readFields(r.PostForm, s); err != nil {
			return err
		}
		err = h(w, r, s, u)
		_, _ = io.Copy(io.Discard, r.Body)
		return err
	}
}

// readFields reads the fields before the first file.
func (u *Upload) readFields(form url.Values, s *Session) error {
	left := int64(maxFields)
	for first := true; ; first = false {
		part, err := u.parts.NextPart()
		if errors.Is(err, io.EOF) && !first {
			return nil
		}
		if err != nil {
			return unreadable(err)
		}
		if !first && part.FileName() != "" {
			u.next = part
			return nil
		}
		text, err := io.ReadAll(io.LimitReader(part, left+1))
		if err != nil {
			return unreadable(err)
		}
		if left -= int64(len(text)); left < 0 {
			return fault.New(fault.TooLarge, "The fields of the form are too long.")
		}
		if first && (part.FormName() != "csrf" || !s.checkCSRF(string(text))) {
			return staleForm()
		}
		if !isFile(part) { // an input without a file has no content
			form.Add(part.FormName(), string(text))
		}
	}
}

func staleForm() error {
	return fault.New(fault.Forbidden, "This form is too old. Go back, reload the page, and send it again.")
}

func unreadable(err error) error {
	return fault.Wrap(err, fault.BadRequest, "The upload ended early, or is not a form: send it again.")
}

// isFile reports whether a part is of an input for files.
func isFile(part *multipart.Part) bool { return part.Header.Get("Content-Type") != "" }

// Next returns the next file, or nil after the last.
func (u *Upload) Next() (*File, error) {
	for {
		part := u.next
		if u.next = nil; part == nil {
			var err error
			if part, err = u.parts.NextPart(); errors.Is(err, io.EOF) {
				return nil, nil
			} else if err != nil {
				return nil, unreadable(err)
			}
		}
		if part.FileName() == "" {
			continue
		}
		// FileName returns only the last part of a path.
		_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil {
			return nil, unreadable(err)
		}
		return &File{Reader: part, Field: part.FormName(), Path: params["filename"]}, nil
	}
}
