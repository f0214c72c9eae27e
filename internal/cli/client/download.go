package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Download copies a file of the API to w and returns its length. It follows
// redirects to a blob store, but does not send the token there.
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
			return 0, fmt.Errorf("the API redirects %s to an invalid address: %w", path, err)
		}
		call.URL = target.String()
		if target.Scheme != base.Scheme || target.Host != base.Host { // nor from https to http
			call.Token = Anonymous
		}
		if res, err = c.open(ctx, call); err != nil {
			return 0, err
		}
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // the error message, as far as it can be read
		return 0, newError(call, &Reply{Status: res.StatusCode, Header: res.Header, Body: body})
	}
	return io.Copy(w, res.Body)
}

// open sends a call and returns the response with its body unread.
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
