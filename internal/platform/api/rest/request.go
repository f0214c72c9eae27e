package rest

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"ingot/internal/base/web"
	"ingot/internal/platform"
)

// Request is a request in its transaction, so that handlers read and change one
// consistent state.
type Request struct {
	Tx     platform.Tx
	HTTP   *http.Request
	Base   string // the origin of links
	Caller Caller
}

// NewRequest returns a request in its transaction.
func NewRequest(tx platform.Tx, r *http.Request) *Request {
	return &Request{Tx: tx, HTTP: r, Base: BaseURL(r), Caller: CallerOf(r)}
}

// Link returns the link to a path below /v3.
func (req *Request) Link(parts ...string) *Link {
	return Href(append([]string{req.Base, "/v3"}, parts...)...)
}

// Answer runs f in a transaction and responds with the resource that it returns. f
// may run more than once, so the body of the request is read before. The response is
// built in a second, read-only transaction, so that writers need not wait for it.
func Answer[T, B any](srv *Server, w http.ResponseWriter, r *http.Request, s Resource[T, B], status int,
	f func(req *Request) (*T, error)) error {
	var item *T
	err := srv.Store.Update(r.Context(), func(tx platform.Tx) (err error) {
		item, err = f(NewRequest(tx, r))
		return err
	})
	if err != nil {
		return err
	}
	return Respond(srv, w, r, s, status, item)
}

// Respond responds with a stored resource.
func Respond[T, B any](srv *Server, w http.ResponseWriter, r *http.Request, s Resource[T, B], status int,
	item *T) error {
	var bodies []B
	err := srv.Store.View(r.Context(), func(tx platform.Tx) (err error) {
		bodies, err = s.Present(NewRequest(tx, r), []*T{item})
		return err
	})
	if err != nil {
		return err
	}
	web.WriteJSON(w, status, bodies[0])
	return nil
}

// Show responds with the result of f, which only reads.
func (srv *Server) Show(w http.ResponseWriter, r *http.Request, f func(req *Request) (any, error)) error {
	var body any
	err := srv.Store.View(r.Context(), func(tx platform.Tx) (err error) {
		body, err = f(NewRequest(tx, r))
		return err
	})
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, body)
	return nil
}

// Perform runs f in a transaction and responds with its result.
func (srv *Server) Perform(w http.ResponseWriter, r *http.Request, status int,
	f func(req *Request) (any, error)) error {
	var body any
	err := srv.Store.Update(r.Context(), func(tx platform.Tx) (err error) {
		body, err = f(NewRequest(tx, r))
		return err
	})
	if err != nil {
		return err
	}
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return nil
	}
	web.WriteJSON(w, status, body)
	return nil
}

// Finish runs f where clients expect a job, and responds with a job that is already
// complete, so that they poll only once.
func (srv *Server) Finish(w http.ResponseWriter, r *http.Request, operation string, f func(req *Request) error) error {
	var job *platform.Job
	err := srv.Store.Update(r.Context(), func(tx platform.Tx) (err error) {
		if err := f(NewRequest(tx, r)); err != nil {
			return err
		}
		job, err = srv.Platform.CreateJob(tx, platform.Job{Operation: operation, State: platform.JobComplete})
		return err
	})
	if err != nil {
		return err
	}
	acceptJob(w, r, job)
	return nil
}

// shortWait is how long a response waits for its job, because clients poll a job that
// is not complete only after seconds.
const shortWait = 1500 * time.Millisecond

// Accepted responds with a job when it is complete, or after shortWait.
func (srv *Server) Accepted(w http.ResponseWriter, r *http.Request, j *platform.Job) {
	if j.State == platform.JobProcessing {
		ctx, cancel := context.WithTimeout(r.Context(), shortWait)
		defer cancel()
		srv.Services.Wait(ctx, j.GUID)
	}
	acceptJob(w, r, j)
}

// Conclude runs f, which may involve brokers, and responds with the job that f
// returns, or with one that is complete.
func (srv *Server) Conclude(w http.ResponseWriter, r *http.Request, operation string,
	f func(req *Request) (*platform.Job, error)) error {
	var job *platform.Job
	err := srv.Store.Update(r.Context(), func(tx platform.Tx) (err error) {
		if job, err = f(NewRequest(tx, r)); err != nil || job != nil {
			return err
		}
		job, err = srv.Platform.CreateJob(tx, platform.Job{Operation: operation, State: platform.JobComplete})
		return err
	})
	if err != nil {
		return err
	}
	srv.Accepted(w, r, job)
	return nil
}

// OrJob is like Conclude, but responds with 204 if f returns no job.
func (srv *Server) OrJob(w http.ResponseWriter, r *http.Request, f func(req *Request) (*platform.Job, error)) error {
	var job *platform.Job
	err := srv.Store.Update(r.Context(), func(tx platform.Tx) (err error) {
		job, err = f(NewRequest(tx, r))
		return err
	})
	if err != nil {
		return err
	}
	if job == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	srv.Accepted(w, r, job)
	return nil
}

// Warn adds a warning, which clients print.
func Warn(w http.ResponseWriter, text string) {
	w.Header().Add("X-Cf-Warnings", url.QueryEscape(text))
}

// Warned returns a response to which a warning can be added while the request is
// handled.
func Warned(w http.ResponseWriter, text *string) http.ResponseWriter { return warned{w, text} }

type warned struct {
	http.ResponseWriter
	text *string
}

// WriteHeader implements http.ResponseWriter.
func (w warned) WriteHeader(status int) {
	if *w.text != "" && status < 300 {
		Warn(w.ResponseWriter, *w.text)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w warned) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// acceptJob responds with the location of the job.
func acceptJob(w http.ResponseWriter, r *http.Request, j *platform.Job) {
	w.Header().Set("Location", BaseURL(r)+"/v3/jobs/"+Escape(j.GUID))
	w.WriteHeader(http.StatusAccepted)
}
