package builds

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/rest"
)

const (
	// DefaultUpload is how large an upload may be unless something else is configured.
	DefaultUpload = 1 << 30
	// around limits the rest of the body around an upload. A larger body is read and
	// discarded up to maxDrained, because cf shows a response only after it has sent
	// everything.
	around     = 1 << 20
	maxDrained = 16 << 30
	// maxResources limits the size of the list of files that need not be uploaded.
	maxResources = 16 << 20
)

// bitsPath is the field in which Cloud Foundry's web server passes the path of a
// stored upload. From a client it could name any file of the server, so it is
// rejected everywhere, also for resources that do not exist.
const bitsPath = "bits_path"

var errBitsPath = fault.Invalid("Bits path is invalid")

// namesBits returns an error for a request whose query has a bitsPath.
func namesBits(r *http.Request) error {
	if r.URL.Query().Has(bitsPath) {
		return errBitsPath
	}
	return nil
}

// errTooMuch means that an upload is too large.
var errTooMuch = errors.New("the upload is too large")

var (
	uploads   = web.Limits{Body: maxDrained, Read: time.Hour, Write: time.Hour}
	downloads = web.Limits{Body: 1 << 20, Read: time.Minute, Write: time.Hour}
)

// upload is a multipart upload whose file is on disk.
type upload struct {
	resources string   // files that the server has already, as JSON
	file      *os.File // nil if there was none
	size      int64
	filename  string
	scratch   string
}

// bounded fails when more than the limit was read.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooMuch
	}
	return n, err
}

// Close removes the file.
func (u *upload) Close() {
	if u.file != nil {
		_ = u.file.Close()
	}
}

// readUpload streams a multipart body: the part "bits" (or "file") into an unlinked
// temporary file in scratch, so that it is never left behind.
func (a *API) readUpload(r *http.Request) (*upload, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, fault.New(fault.BadRequest, "The upload must be multipart/form-data with a part named 'bits'")
	}
	most := a.MaxUpload + around
	if r.ContentLength > most {
		// A client that sends Expect: 100-continue gets the error at once.
		if r.Header.Get("Expect") == "" {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		return nil, a.uploadFault(errTooMuch)
	}
	u := &upload{scratch: a.Scratch}
	parts := multipart.NewReader(&bounded{r.Body, most}, params["boundary"])
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return u, nil
		}
		if err == nil {
			err = u.take(part)
		} else if err = a.uploadFault(err); !errors.As(err, new(*fault.Error)) {
			err = fault.Wrap(err, fault.BadRequest, "The upload is not valid multipart/form-data")
		}
		if err != nil {
			u.Close()
			_, _ = io.Copy(io.Discard, r.Body)
			return nil, a.uploadFault(err)
		}
	}
}

func (u *upload) take(part *multipart.Part) error {
	switch part.FormName() {
	case "bits", "file":
		if u.file != nil {
			return fault.New(fault.BadRequest, "The upload has more than one file")
		}
		file, err := os.CreateTemp(u.scratch, "upload-")
		if err != nil {
			return err
		}
		_ = os.Remove(file.Name())
		u.file, u.filename = file, part.FileName()
		if u.size, err = io.Copy(file, part); err != nil {
			return err
		}
		_, err = file.Seek(0, io.SeekStart)
		return err
	case bitsPath:
		return errBitsPath
	case "resources":
		text, err := io.ReadAll(io.LimitReader(part, maxResources+1))
		if err == nil && len(text) > maxResources {
			err = fault.New(fault.TooLarge, "The list of resources is larger than the limit of %d MB", maxResources>>20)
		}
		u.resources = string(text)
		return err
	default:
		_, err := io.Copy(io.Discard, part) // not stored, because it may be large
		return err
	}
}

func (a *API) uploadFault(err error) error {
	var drained *http.MaxBytesError
	var known *fault.Error
	switch {
	case errors.Is(err, errTooMuch), errors.As(err, &drained):
		return fault.New(fault.TooLarge,
			"The upload is larger than the limit of %d MB and was not stored. List files that the app does not need in a "+
				".cfignore file.", a.MaxUpload>>20)
	case errors.As(err, &known):
		return known
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fault.Wrap(err, fault.BadRequest, "The upload ended early")
	}
	return err
}

// serveBlob sends a file, with ranges for those who resume.
func serveBlob(w http.ResponseWriter, r *http.Request, d Download) error {
	defer d.File.Close()
	w.Header().Set("Cache-Control", "no-store") // the file may have secrets, and its link is not valid for long
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", d.ContentType)
	w.Header().Set("Content-Disposition", d.Disposition)
	http.ServeContent(w, r, "", time.Time{}, d.File)
	return nil
}

// download redirects to the file of the package or droplet that find returns, if allow records the download: to the
// bucket, or to a link of this server.
func download[T any, P interface {
	*T
	Base() *platform.Resource
}](a *API, w http.ResponseWriter, r *http.Request, kind string,
	find func(*rest.Request) (*T, *platform.App, error), locate func(ctx context.Context, guid string) (string, error),
	allow func(platform.Tx, actions.Actor, *platform.App, *T) error,
) error {
	item, err := rest.Update(a.Server, r, rest.Acted(find, allow))
	if err != nil {
		return err
	}
	guid := P(item).Base().GUID
	at, err := locate(r.Context(), guid)
	if err != nil {
		return err
	}
	if at == "" {
		at = a.Links.To(r, kind, guid)
	}
	w.Header().Set("Cache-Control", "no-store") // the URL is a secret, and not valid for long
	http.Redirect(w, r, at, http.StatusFound)
	return nil
}

// uploaded responds with a resource whose file was uploaded, and with the location
// of the job that clients expect.
func uploaded[T, B any](a *API, w http.ResponseWriter, r *http.Request, s rest.Resource[T, B],
	f func(req *rest.Request) (*T, platform.Job, error)) error {
	var item *T
	job, err := rest.Update(a.Server, r, func(req *rest.Request) (*platform.Job, error) {
		stored, done, err := f(req)
		if err != nil {
			return nil, err
		}
		item = stored
		return a.Platform.CreateJob(req.Tx, done)
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", rest.BaseURL(r)+"/v3/jobs/"+rest.Escape(job.GUID))
	return rest.Respond(a.Server, w, r, s, http.StatusAccepted, item)
}
