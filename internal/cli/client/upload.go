package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"sync/atomic"

	"ingot/internal/base/cfapi"
)

// Resource is a file that the platform may already have.
type Resource struct {
	Path     string         `json:"path"`
	Mode     string         `json:"mode"`
	Checksum cfapi.Checksum `json:"checksum"` // SHA-1
	Size     int64          `json:"size_in_bytes"`
}

// resourceBatch is the maximum number of files in a resource match.
const resourceBatch = 5000

// MatchResources returns the files that the platform already has.
func (c *Client) MatchResources(ctx context.Context, files []Resource) ([]Resource, error) {
	var known []Resource
	for len(files) > 0 {
		n := min(len(files), resourceBatch)
		var answer struct {
			Resources []Resource `json:"resources"`
		}
		if _, err := c.Post(ctx, "/v3/resource_matches", map[string]any{"resources": files[:n]}, &answer); err != nil {
			return nil, err
		}
		known, files = append(known, answer.Resources...), files[n:]
	}
	return known, nil
}

// Bits is an archive to upload and its exact length.
type Bits struct {
	Length int64
	Write  func(io.Writer) error
}

// Upload sends the bits of a package in one stream, with the list of files that
// the platform already has. read is called with the number of bytes sent.
func (c *Client) Upload(ctx context.Context, pkg string, known []Resource, bits *Bits,
	read func(int64)) (cfapi.Package, error) {
	if known == nil {
		known = []Resource{}
	}
	list, err := json.Marshal(known)
	if err != nil {
		return cfapi.Package{}, err
	}
	var out cfapi.Package
	_, err = c.sendForm(ctx, "/v3/packages/"+pkg+"/upload", list, "package.zip", "application/zip", bits, read, &out)
	return out, err
}

// Change is a change to the files of an app since one of its droplets.
type Change struct {
	Droplet cfapi.GUID `json:"droplet"`
	Deleted []string   `json:"deleted"`
}

// Changed is what the platform made of a change: a package and, unless it needs a
// build, a droplet.
type Changed struct {
	Package     cfapi.GUID  `json:"package"`
	Droplet     *cfapi.GUID `json:"droplet"`
	BuildReason string      `json:"build_reason"`
}

// SendChange sends changed files of an app; bits is nil if files were only deleted.
func (c *Client) SendChange(ctx context.Context, app string, change Change, bits *Bits) (Changed, error) {
	var out Changed
	if change.Deleted == nil {
		change.Deleted = []string{}
	}
	text, err := json.Marshal(change)
	if err != nil {
		return out, err
	}
	_, err = c.sendForm(ctx, "/v3/ingot/apps/"+app+"/changes", text, "changes.zip", "application/zip", bits, nil, &out)
	return out, err
}

// UploadDroplet sends a droplet. It is ready when the job of the reply is done.
func (c *Client) UploadDroplet(ctx context.Context, droplet string, bits *Bits, read func(int64)) (*Reply, error) {
	return c.sendForm(ctx, "/v3/droplets/"+droplet+"/upload", nil, "droplet.tgz", "application/gzip", bits, read, nil)
}

// UploadBuildpack sends the zip file of a buildpack. It is ready when the job of the reply
// is done.
func (c *Client) UploadBuildpack(ctx context.Context, buildpack, name string, bits *Bits,
	read func(int64)) (*Reply, error) {
	name = strings.NewReplacer(`"`, "", "\r", "", "\n", "", `\`, "").Replace(name) // it is quoted
	return c.sendForm(ctx, "/v3/buildpacks/"+buildpack+"/upload", nil, name, "application/zip", bits, read, nil)
}

// sendForm posts a form with a list of resources, an archive, or both.
func (c *Client) sendForm(ctx context.Context, path string, resources []byte, name, kind string, bits *Bits,
	read func(int64), into any) (*Reply, error) {
	var body bytes.Buffer
	var err error
	form := multipart.NewWriter(&body)
	if resources != nil {
		err = form.WriteField("resources", string(resources))
	}
	if err == nil && bits != nil {
		_, err = form.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {`form-data; name="bits"; filename="` + name + `"`}, "Content-Type": {kind},
		})
	}
	if err != nil {
		return nil, err
	}
	head := bytes.Clone(body.Bytes())
	body.Reset()
	if err := form.Close(); err != nil {
		return nil, err
	}
	tail := body.Bytes()
	length := int64(len(head) + len(tail))
	if bits != nil {
		length += bits.Length
	}
	var failed atomic.Pointer[LocalError]
	stream := Stream{Length: length, Open: func() (io.ReadCloser, error) {
		if bits == nil {
			return io.NopCloser(io.MultiReader(bytes.NewReader(head), bytes.NewReader(tail))), nil
		}
		r, w := io.Pipe()
		go func() {
			err := bits.Write(w)
			if err != nil && !errors.Is(err, io.ErrClosedPipe) { // closed by a server that answers early
				failed.Store(&LocalError{err})
			}
			_ = w.CloseWithError(err) // the reader gets the error
		}()
		return &uploadBody{io.MultiReader(bytes.NewReader(head), &counted{r, read}, bytes.NewReader(tail)), r}, nil
	}}
	reply, err := c.Do(ctx, Call{Method: http.MethodPost, URL: path, Body: stream, ContentType: form.FormDataContentType(),
		Into: into})
	if local := failed.Load(); local != nil && err != nil {
		// The server got a part of the body only: what it says of it, or that it ended
		// the connection, is not the reason.
		return nil, local
	}
	return reply, err
}

type uploadBody struct {
	io.Reader
	pipe *io.PipeReader
}

func (b *uploadBody) Close() error { return b.pipe.Close() }

// counted reports the number of bytes read.
type counted struct {
	io.Reader
	read func(int64)
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if c.read != nil && n > 0 {
		c.read(int64(n))
	}
	return n, err
}
