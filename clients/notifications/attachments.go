package notifications

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// Attachment is a file that the mail of a send has, with its Content or the ID of a stored file.
type Attachment struct {
	Name string `json:"name,omitempty"`
	Type string `json:"type,omitempty"` // a media type; without it, that of the content
	// Content makes the request longer by a third more than it is; see StoreFile.
	Content []byte `json:"content,omitempty"`
	ID      string `json:"id,omitempty"`
	// Inline is the name with which the HTML shows an image: <img src="cid:logo">.
	Inline string `json:"inline,omitempty"`
}

// StoreFile stores a file of at most 10 MiB for Attachment.ID, and returns its id. The service stores the same content
// once, so storing it again is harmless; it keeps files that no send has for 48 hours.
func (c *Client) StoreFile(ctx context.Context, content []byte) (id string, err error) {
	r := request{method: http.MethodPost, path: "/attachments", header: http.Header{}}
	r.header.Set("Content-Type", "application/octet-stream")
	r.body = func() (io.Reader, error) { return bytes.NewReader(content), nil }
	var made struct {
		ID string `json:"id"`
	}
	err = c.do(ctx, r, &made)
	return made.ID, err
}
