package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Download copies a file of the API to w and returns its length. A platform
// with a blob store elsewhere redirects to it; the login stays here then.
func (c *Client) Download(ctx context.Context, path string, w io.Writer) (int64, error) {
	call := Call{Method: http.MethodGet, URL: path, Accept: "*/*"}
	res, err := c.open(ctx, call)
	if err != nil {
		return 0, err
	}
	if at := res.Header.Get("Location"); res.StatusCode/100 == 3 && at != "" {
		res.Body.Close()
		base, err := url.Parse(c.API)
		if err != nil {
			return 0, err
		}
		target, err := base.Parse(at)
		if err != nil {
			return 0, fmt.Errorf("the API redirects %s to an address that cannot be read: %w", path, err)
		}
		call.URL = target.String()
		if target.Scheme != base.Scheme || target.Host != base.Host { // nor does it go where others can read along
			call.Token = Anonymous
		}
		if res, err = c.open(ctx, call); err != nil {
			return 0, err
		}
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // what can be read of it tells why
		return 0, newError(call, &Reply{Status: res.StatusCode, Header: res.Header, Body: body})
	}
	return io.Copy(w, res.Body)
}

// open sends a call and leaves the body of the answer to be read.
func (c *Client) open(ctx context.Context, call Call) (*http.Response, error) {
	req, err := c.request(ctx, call)
	if err != nil {
		return nil, err
	}
	if call.Token != Anonymous {
		token, err := c.Token(ctx)
		if err != nil {
			return nil, err
		}
		if token != "" {
			req.Header.Set("Authorization", "bearer "+token)
		}
	}
	res, err := c.http.Do(req)
	return res, explain(c.API, err)
}
