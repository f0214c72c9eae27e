package rest

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// Param returns a parameter of the path.
func (req *Request) Param(name string) string { return web.Param(req.HTTP, name) }

// Body decodes the body of a request, which may have no unknown members.
func Body[Q any](r *http.Request) (*Q, error) {
	body := new(Q)
	return body, web.DecodeStrict(r, body)
}

// Creator handles POST of a collection: create returns the resource that it has created. It may
// run more than once with the same body, which it must not change.
func Creator[Q, T, B any](srv *Server, s Resource[T, B], create func(*Request, *Q) (*T, error)) web.Handler {
	return saver(srv, s, http.StatusCreated, create)
}

// Updater handles PATCH of a resource. It is like Creator.
func Updater[Q, T, B any](srv *Server, s Resource[T, B], update func(*Request, *Q) (*T, error)) web.Handler {
	return saver(srv, s, http.StatusOK, update)
}

func saver[Q, T, B any](srv *Server, s Resource[T, B], status int, save func(*Request, *Q) (*T, error)) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := Body[Q](r)
		if err != nil {
			return err
		}
		return Answer(srv, w, r, s, status, func(req *Request) (*T, error) { return save(req, body) })
	}
}

// Applied returns the function of a Creator or Updater that applies the body to the resource that
// begin returns, a new one or that of the path, and saves it.
func Applied[Q, T any](begin func(*Request) (*T, error), apply func(*Q, *T) error,
	save func(platform.Tx, actions.Actor, *T) error,
) func(*Request, *Q) (*T, error) {
	return func(req *Request, body *Q) (*T, error) {
		item, err := begin(req)
		if err != nil {
			return nil, err
		}
		if err := apply(body, item); err != nil {
			return nil, err
		}
		return item, save(req.Tx, req.Caller.Actor(), item)
	}
}

// New returns a function that returns a copy of a new resource.
func New[T any](item T) func(*Request) (*T, error) {
	return func(*Request) (*T, error) { made := item; return &made, nil }
}

// with calls do with the resource that find returns if the caller may see or change it.
func with[T, R any](
	find func(*Request) (*T, error), do func(*Request, *T) (R, error),
) func(*Request) (R, error) {
	return func(req *Request) (none R, err error) {
		item, err := find(req)
		if err != nil {
			return none, err
		}
		return do(req, item)
	}
}

// Viewer handles GET of what view returns about the resource that find returns.
func Viewer[T any](srv *Server, find func(*Request) (*T, error), view func(*Request, *T) (any, error)) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error { return srv.Show(w, r, with(find, view)) }
}

// AuditedViewer is like Viewer, for a view that records an audit event.
func AuditedViewer[T any](
	srv *Server, find func(*Request) (*T, error), view func(*Request, *T) (any, error),
) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return srv.Perform(w, r, http.StatusOK, with(find, view))
	}
}

// Changer handles a change of the resource that find returns. The body is what read returns, the
// response what change returns.
func Changer[Q, T any](srv *Server, read func(*http.Request) (Q, error),
	find func(*Request) (*T, error), change func(*Request, *T, Q) (any, error),
) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := read(r)
		if err != nil {
			return err
		}
		return srv.Perform(w, r, http.StatusOK, with(find, func(req *Request, item *T) (any, error) {
			return change(req, item, body)
		}))
	}
}

// Deleter handles DELETE of the resource that find returns if the caller may delete it,
// and responds with a job that is complete.
func Deleter[T any](srv *Server, operation string, find func(*Request) (*T, error),
	remove func(platform.Tx, actions.Actor, *T) error,
) web.Handler {
	return JobDeleter(srv, operation, find, func(tx platform.Tx, by actions.Actor, item *T) (*platform.Job, error) {
		return nil, remove(tx, by, item)
	})
}

// JobDeleter is like Deleter, for what may need a job: it responds with the job that remove returns.
func JobDeleter[T any](srv *Server, operation string, find func(*Request) (*T, error),
	remove func(platform.Tx, actions.Actor, *T) (*platform.Job, error),
) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return srv.Conclude(w, r, operation, with(find, func(req *Request, item *T) (*platform.Job, error) {
			return remove(req.Tx, req.Caller.Actor(), item)
		}))
	}
}

// Remover is like Deleter, and responds with 204.
func Remover[T any](srv *Server, find func(*Request) (*T, error), remove func(*Request, *T) error) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return srv.Perform(w, r, http.StatusNoContent, with(find, func(req *Request, item *T) (any, error) {
			return nil, remove(req, item)
		}))
	}
}

// By performs an action for the caller of a request.
func By[T any](act func(platform.Tx, actions.Actor, *T) error) func(*Request, *T) error {
	return func(req *Request, item *T) error { return act(req.Tx, req.Caller.Actor(), item) }
}
