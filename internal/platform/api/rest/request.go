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

// View returns the result of f, which only reads.
func View[R any](srv *Server, r *http.Request, f func(req *Request) (R, error)) (R, error) {
	return within(srv.Store.View, r, f)
}

// Update returns the result of f, which runs in a transaction. f may run more than once, so the
// body of the request is read before.
func Update[R any](srv *Server, r *http.Request, f func(req *Request) (R, error)) (R, error) {
	return within(srv.Store.Update, r, f)
}

func within[R any](run func(context.Context, func(platform.Tx) error) error, r *http.Request,
	f func(req *Request) (R, error),
) (result R, err error) {
	err = run(r.Context(), func(tx platform.Tx) (err error) {
		result, err = f(NewRequest(tx, r))
		return err
	})
	return result, err
}

// Answer responds with the resource that f returns, which is like that of Update. The response is
// built in a second, read-only transaction, so that writers need not wait for it.
func Answer[T, B any](srv *Server, w http.ResponseWriter, r *http.Request, s Resource[T, B], status int,
	f func(req *Request) (*T, error)) error {
	item, err := Update(srv, r, f)
	if err != nil {
		return err
	}
	return Respond(srv, w, r, s, status, item)
}

// Respond responds with a stored resource.
func Respond[T, B any](srv *Server, w http.ResponseWriter, r *http.Request, s Resource[T, B], status int,
	item *T) error {
	bodies, err := View(srv, r, func(req *Request) ([]B, error) { return s.Present(req, []*T{item}) })
	if err != nil {
		return err
	}
	return web.Answer(w, status, bodies[0], nil)
}

// Show responds with the result of f, which only reads.
func (srv *Server) Show(w http.ResponseWriter, r *http.Request, f func(req *Request) (any, error)) error {
	body, err := View(srv, r, f)
	return web.Answer(w, http.StatusOK, body, err)
}

// Perform runs f in a transaction and responds with its result.
func (srv *Server) Perform(w http.ResponseWriter, r *http.Request, status int,
	f func(req *Request) (any, error)) error {
	body, err := Update(srv, r, f)
	return web.Answer(w, status, body, err)
}

// Finish runs f where clients expect a job, and responds with a job that is already
// complete, so that they poll only once.
func (srv *Server) Finish(w http.ResponseWriter, r *http.Request, operation string, f func(req *Request) error) error {
	return srv.Conclude(w, r, operation, func(req *Request) (*platform.Job, error) { return nil, f(req) })
}

// shortWait is how long a response waits for its job, because clients poll a job that
// is not complete only after seconds.
const shortWait = 1500 * time.Millisecond

// Accepted responds with the location of a job when it is complete, or after shortWait.
func (srv *Server) Accepted(w http.ResponseWriter, r *http.Request, j *platform.Job) {
	if j.State == platform.JobProcessing {
		ctx, cancel := context.WithTimeout(r.Context(), shortWait)
		defer cancel()
		srv.Services.Wait(ctx, j.GUID)
	}
	w.Header().Set("Location", BaseURL(r)+"/v3/jobs/"+Escape(j.GUID))
	w.WriteHeader(http.StatusAccepted)
}

// Conclude runs f, which may involve brokers, and responds with the job that f
// returns, or with one that is complete.
func (srv *Server) Conclude(w http.ResponseWriter, r *http.Request, operation string,
	f func(req *Request) (*platform.Job, error)) error {
	return srv.OrJob(w, r, func(req *Request) (*platform.Job, error) {
		if job, err := f(req); err != nil || job != nil {
			return job, err
		}
		return srv.Platform.CreateJob(req.Tx, platform.Job{Operation: operation, State: platform.JobComplete})
	})
}

// OrJob is like Conclude, but responds with 204 if f returns no job.
func (srv *Server) OrJob(w http.ResponseWriter, r *http.Request, f func(req *Request) (*platform.Job, error)) error {
	job, err := Update(srv, r, f)
	if job == nil || err != nil {
		return web.Answer(w, http.StatusNoContent, nil, err)
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
