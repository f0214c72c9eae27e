//go:build linux

package kubetest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// groups are the resources of the API by the path of their group.
var groups = map[string][]string{
	"/api/v1":                    {"pods", "configmaps", "secrets"},
	"/apis/policy/v1":            {"poddisruptionbudgets"},
	"/apis/networking.k8s.io/v1": {"networkpolicies"},
}

var kinds = map[string]string{
	"pods": "Pod", "configmaps": "ConfigMap", "secrets": "Secret", "poddisruptionbudgets": "PodDisruptionBudget",
	"networkpolicies": "NetworkPolicy",
}

// target is what a request is about.
type target struct{ group, resource, name, sub string }

func parse(path string) (target, bool) {
	for group, resources := range groups {
		rest, ok := strings.CutPrefix(path, group+"/namespaces/"+Namespace+"/")
		if !ok {
			continue
		}
		parts := append(strings.SplitN(rest, "/", 3), "", "")
		for _, r := range resources {
			if r == parts[0] {
				return target{group: group, resource: parts[0], name: parts[1], sub: parts[2]}, true
			}
		}
	}
	return target{}, false
}

// ServeHTTP is the API server.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f, _, _ := c.current(); f.Away {
		panic(http.ErrAbortHandler) // the connection breaks
	}
	switch r.URL.Path {
	case "/version":
		reply(w, http.StatusOK, object{"major": "1", "minor": "34", "gitVersion": "v1.34.3"})
		return
	case reviews:
		c.review(w, r)
		return
	}
	at, ok := parse(r.URL.Path)
	if !ok {
		fail(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource "+r.URL.Path)
		return
	}
	verb := verbOf(r, at)
	resource := at.resource
	if at.sub != "" {
		resource += "/" + at.sub
	}
	if !c.permitted(verb, resource, at.name) {
		fail(w, http.StatusForbidden, "Forbidden",
			fmt.Sprintf("%s %q is forbidden: User \"system:serviceaccount:ingot-system:ingot\" cannot %s resource %q in API "+
				"group \"\" in the namespace %q",
				resource, at.name, verb, resource, Namespace))
		return
	}
	switch verb {
	case "create":
		c.create(w, r, at)
	case "list":
		items, version := c.store.list(at.resource, r.URL.Query().Get("labelSelector"))
		reply(w, http.StatusOK, object{
			"apiVersion": apiVersion(at.group), "kind": kinds[at.resource] + "List",
			"metadata": object{"resourceVersion": strconv.FormatInt(version, 10)}, "items": items,
		})
	case "watch":
		c.watch(w, r, at)
	case "get":
		c.serveOne(w, r, at)
	case "patch":
		c.patch(w, r, at)
	case "delete":
		c.serveDelete(w, r, at)
	default:
		fail(w, http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method)
	}
}

func verbOf(r *http.Request, at target) string {
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPatch:
		return "patch"
	case http.MethodPut:
		return "update"
	case http.MethodDelete:
		return "delete"
	}
	switch {
	case at.name != "":
		return "get"
	case r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1":
		return "watch"
	}
	return "list"
}

func apiVersion(group string) string {
	return strings.TrimPrefix(strings.TrimPrefix(group, "/apis/"), "/api/")
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(encode(v)) // the client is gone
}

func status(code int, reason, message string) object {
	return object{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
		"message": message}
}

func fail(w http.ResponseWriter, code int, reason, message string) {
	reply(w, code, status(code, reason, message))
}

func notFound(w http.ResponseWriter, at target) {
	fail(w, http.StatusNotFound, "NotFound", fmt.Sprintf("%s %q not found", at.resource, at.name))
}

func (c *Cluster) create(w http.ResponseWriter, r *http.Request, at target) {
	body, err := io.ReadAll(r.Body)
	var given object
	if err == nil {
		err = json.Unmarshal(body, &given)
	}
	name := text(given, "metadata", "name")
	if err != nil || name == "" {
		fail(w, http.StatusBadRequest, "BadRequest", fmt.Sprintf("%s without a name: %v", at.resource, err))
		return
	}
	if f, _, _ := c.current(); f.Refuse != nil && at.resource == "pods" {
		if why := f.Refuse(body); why != "" {
			fail(w, http.StatusForbidden, "Forbidden", fmt.Sprintf("pods %q is forbidden: %s", name, why))
			return
		}
	}
	if r.URL.Query().Get("dryRun") == "All" {
		reply(w, http.StatusCreated, given)
		return
	}
	o, created := c.store.put(at.resource, name, true, func(o object) {
		maps.Copy(o, given)
		set(o, uuid.NewString(), "metadata", "uid")
		set(o, now(), "metadata", "creationTimestamp")
		if at.resource == "pods" {
			set(o, object{"phase": "Pending"}, "status")
		}
	})
	if !created {
		fail(w, http.StatusConflict, "AlreadyExists", fmt.Sprintf("%s %q already exists", at.resource, name))
		return
	}
	switch at.resource {
	case "pods":
		c.startKubelet(clone(o))
	case "secrets":
		c.wake() // a kubelet may wait for it
	}
	reply(w, http.StatusCreated, o)
}

// reviews is where clients ask what they may do.
const reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

func (c *Cluster) review(w http.ResponseWriter, r *http.Request) {
	var given object
	if err := json.NewDecoder(r.Body).Decode(&given); err != nil {
		fail(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	about := func(key string) string { return text(given, "spec", "resourceAttributes", key) }
	resource := about("resource")
	if sub := about("subresource"); sub != "" {
		resource += "/" + sub
	}
	c.mu.Lock()
	set(given, c.allows(about("verb"), resource, about("name")), "status", "allowed")
	c.mu.Unlock()
	reply(w, http.StatusCreated, given)
}

func (c *Cluster) serveOne(w http.ResponseWriter, _ *http.Request, at target) {
	o, ok := c.store.get(at.resource, at.name)
	switch {
	case !ok:
		notFound(w, at)
	case at.sub == "log":
		b, err := os.ReadFile(filepath.Join(c.root, at.name, logFile))
		if err != nil {
			fail(w, http.StatusBadRequest, "BadRequest",
				fmt.Sprintf("container \"app\" in pod %q is waiting to start: ContainerCreating", at.name))
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(b)
	default:
		reply(w, http.StatusOK, o)
	}
}

func (c *Cluster) patch(w http.ResponseWriter, r *http.Request, at target) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var change object
	if err := json.NewDecoder(r.Body).Decode(&change); err != nil || kind != "application/merge-patch+json" {
		fail(w, http.StatusUnsupportedMediaType, "UnsupportedMediaType", fmt.Sprintf("%s: %v", kind, err))
		return
	}
	o, ok := c.store.put(at.resource, at.name, false, func(o object) { merge(o, change) })
	if !ok {
		notFound(w, at)
		return
	}
	reply(w, http.StatusOK, o)
}

func merge(o, change object) {
	for k, v := range change {
		inner, nested := v.(map[string]any)
		old, ok := o[k].(map[string]any)
		switch {
		case nested && ok:
			merge(old, inner)
		case v == nil:
			delete(o, k)
		default:
			o[k] = v
		}
	}
}

func (c *Cluster) serveDelete(w http.ResponseWriter, r *http.Request, at target) {
	var options struct {
		GracePeriodSeconds *int64 `json:"gracePeriodSeconds"`
		Preconditions      struct {
			UID string `json:"uid"`
		} `json:"preconditions"`
	}
	_ = json.NewDecoder(r.Body).Decode(&options) // a body is optional
	o, ok := c.store.get(at.resource, at.name)
	uid := text(o, "metadata", "uid")
	switch {
	case !ok:
		notFound(w, at)
		return
	case options.Preconditions.UID != "" && options.Preconditions.UID != uid:
		fail(w, http.StatusConflict, "Conflict",
			fmt.Sprintf("the UID in the precondition (%s) does not match the UID in record (%s)",
				options.Preconditions.UID, uid))
		return
	}
	if at.resource == "pods" {
		grace := graceOf(o)
		if options.GracePeriodSeconds != nil {
			grace = time.Duration(*options.GracePeriodSeconds) * time.Second
		}
		c.delete(o, grace)
	} else {
		c.store.remove(at.resource, at.name, uid)
	}
	reply(w, http.StatusOK, o)
}

// bookmarks is how often a watch without events reports its version.
const bookmarks = 500 * time.Millisecond

func (c *Cluster) watch(w http.ResponseWriter, r *http.Request, at target) {
	q := r.URL.Query()
	selector := q.Get("labelSelector")
	version, _ := strconv.ParseInt(q.Get("resourceVersion"), 10, 64)
	w.Header().Set("Content-Type", "application/json")
	send := func(kind string, o []byte) {
		_, _ = w.Write([]byte(`{"type":"` + kind + `","object":`))
		_, _ = w.Write(o)
		_, _ = w.Write([]byte("}\n"))
	}
	flush := http.NewResponseController(w).Flush
	ticker := time.NewTicker(bookmarks)
	defer ticker.Stop()
	_, _, broken := c.current()
	for {
		found, last, changed, ok := c.store.since(at.resource, selector, version)
		if !ok {
			send("ERROR", encode(status(http.StatusGone, "Expired", fmt.Sprintf("too old resource version: %d", version))))
			return
		}
		f, _, _ := c.current()
		if len(found) > 0 && f.Late > 0 {
			select {
			case <-time.After(f.Late):
			case <-r.Context().Done():
				return
			}
		}
		for _, e := range found {
			send(e.kind, e.object)
			if f.Duplicate {
				send(e.kind, e.object)
			}
		}
		version = last
		if flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-ticker.C:
			if q.Get("allowWatchBookmarks") == "true" {
				send("BOOKMARK", encode(object{
					"apiVersion": apiVersion(at.group), "kind": kinds[at.resource],
					"metadata": object{"resourceVersion": strconv.FormatInt(version, 10)},
				}))
			}
		case <-broken:
			return
		case <-r.Context().Done():
			return
		}
	}
}
