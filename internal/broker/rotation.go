package broker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// The library knows nothing of the rotation of bindings, which version 2.17 of the API has:
// plans say binding_rotatable, and a request for a binding names its predecessor_binding_id.

type predecessorKey struct{}

// predecessorOf returns the binding that a request wants a successor of, or "".
func predecessorOf(ctx context.Context) string {
	id, _ := ctx.Value(predecessorKey{}).(string)
	return id
}

// withPredecessor passes the predecessor in the body of a request on to Bind.
func withPredecessor(r *http.Request, body map[string]json.RawMessage) *http.Request {
	var id string
	if json.Unmarshal(body["predecessor_binding_id"], &id) != nil || id == "" {
		return r // checkedBody rejects other types
	}
	return r.WithContext(context.WithValue(r.Context(), predecessorKey{}, id))
}

// predecessor returns the binding that is succeeded, nil if the request names none.
func (i *instance) predecessor(ctx context.Context) (*binding, error) {
	id := predecessorOf(ctx)
	if id == "" {
		return nil, nil
	}
	old := i.Bindings[id]
	if old == nil || old.Phase != ready {
		return nil, problem(http.StatusBadRequest, "predecessor_binding_id: this service instance has no binding %q", id)
	}
	return old, nil
}

// root returns the id of the first binding in the line of predecessors.
func (b *binding) root() string { return cmp.Or(b.Root, b.ID) }

// rotatable adds binding_rotatable to the plans of the catalog.
func rotatable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), "/v2/catalog") {
			next.ServeHTTP(w, r)
			return
		}
		kept := &keptResponse{header: w.Header(), status: http.StatusOK}
		next.ServeHTTP(kept, r)
		body := kept.body.Bytes()
		var catalog struct {
			Services []map[string]any `json:"services"`
		}
		if kept.status == http.StatusOK && json.Unmarshal(body, &catalog) == nil {
			for _, s := range catalog.Services {
				plans, _ := s["plans"].([]any)
				for _, p := range plans {
					if plan, ok := p.(map[string]any); ok {
						plan["binding_rotatable"] = true
					}
				}
			}
			if text, err := json.Marshal(catalog); err == nil {
				body = text
			}
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(kept.status)
		_, _ = w.Write(body) // nothing can be done when the client is gone
	})
}

// keptResponse keeps a response instead of sending it.
type keptResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *keptResponse) Header() http.Header         { return k.header }
func (k *keptResponse) WriteHeader(status int)      { k.status = status }
func (k *keptResponse) Write(p []byte) (int, error) { return k.body.Write(p) }
