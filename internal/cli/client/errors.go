package client

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Error is an error response.
type Error struct {
	Method, URL string
	Status      int
	Items       []Item
}

// Item is one error of an error response.
type Item struct {
	Code   int    `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

func (e *Error) Error() string {
	var details []string
	for _, i := range e.Items {
		if i.Detail != "" {
			details = append(details, i.Detail)
		} else if i.Title != "" {
			details = append(details, i.Title)
		}
	}
	if len(details) == 0 {
		return fmt.Sprintf("the server replied %d to %s %s", e.Status, e.Method, e.URL)
	}
	return strings.Join(details, "; ")
}

// Says reports whether a detail or title contains text.
func (e *Error) Says(text string) bool {
	for _, i := range e.Items {
		if strings.Contains(i.Detail, text) || strings.Contains(i.Title, text) {
			return true
		}
	}
	return false
}

// Says reports whether err is an error response that contains text.
func Says(err error, text string) bool {
	var e *Error
	return errors.As(err, &e) && e.Says(text)
}

// Status returns the status of an error response, or 0.
func Status(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// newError decodes the error formats of the three APIs.
func newError(call Call, reply *Reply) error {
	e := &Error{Method: call.Method, URL: call.URL, Status: reply.Status}
	var body struct {
		Errors      json.RawMessage `json:"errors"`
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
	}
	if json.Unmarshal(reply.Body, &body) != nil {
		if text := strings.TrimSpace(string(reply.Body)); text != "" && len(text) < 300 && !strings.Contains(text, "<") {
			e.Items = append(e.Items, Item{Detail: text})
		}
		return e
	}
	var texts []string
	var name string
	switch {
	case json.Unmarshal(body.Errors, &e.Items) == nil: // the platform
	case json.Unmarshal(body.Errors, &texts) == nil: // notifications
		e.Items = nil
		for _, t := range texts {
			e.Items = append(e.Items, Item{Detail: t})
		}
	case json.Unmarshal(body.Error, &name) == nil: // the authorization server
		e.Items = []Item{{Title: name, Detail: body.Description}}
	}
	return e
}

// LocalError means that a request could not be sent because its body could not be
// read on this machine.
type LocalError struct{ Err error }

func (e *LocalError) Error() string { return e.Err.Error() }

func (e *LocalError) Unwrap() error { return e.Err }

// Unreachable means that the API did not respond.
type Unreachable struct {
	API string
	Why error
}

func (e *Unreachable) Error() string { return fmt.Sprintf("%s cannot be reached: %v", e.API, e.Why) }

func (e *Unreachable) Unwrap() error { return e.Why }

// explain turns a failed connection into an Unreachable error.
func explain(api string, err error) error {
	var wrong *url.Error
	if !errors.As(err, &wrong) {
		return err
	}
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var dns *net.DNSError
	why := wrong.Err
	switch {
	case errors.As(err, &unknown), errors.As(err, &host):
		why = fmt.Errorf("its certificate is not trusted (%w); --skip-ssl-validation accepts it", wrong.Err)
	case errors.As(err, &dns):
		why = fmt.Errorf("host %s not found", dns.Name)
	case errors.Is(err, http.ErrSchemeMismatch):
		why = fmt.Errorf("it uses HTTP, not HTTPS (%w): write http:// before the address", http.ErrSchemeMismatch)
	case errors.Is(err, errRefused):
		why = fmt.Errorf("nothing is listening on that port: %w", errRefused)
	}
	if u, parseErr := url.Parse(wrong.URL); parseErr == nil && u.Host != "" {
		api = u.Scheme + "://" + u.Host
	}
	return &Unreachable{api, why}
}
