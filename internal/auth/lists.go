package auth

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/auth/scim"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

// Paging of every list, as in UAA.
const (
	defaultCount = 100
	maxCount     = 500
)

func invalidScim(format string, args ...any) error {
	return fault.New(fault.BadRequest, format, args...).WithKind("invalid_scim_resource")
}

// parseQuery reads filter, sortBy, sortOrder, startIndex and count; and
// countTotal, an extension: a client that reads a whole list sets it to false.
func parseQuery(r *http.Request) (Query, error) {
	v := r.URL.Query()
	q := Query{Start: 1, Count: defaultCount, SortBy: v.Get("sortBy"), Uncounted: v.Get("countTotal") == "false"}
	if text := v.Get("filter"); text != "" {
		e, err := scim.Parse(text)
		if err != nil {
			return q, badFilter(err)
		}
		q.Filter = e
	}
	switch order := strings.ToLower(v.Get("sortOrder")); order {
	case "", "ascending":
	case "descending":
		q.Descending = true
	default:
		return q, invalidScim("sortOrder must be ascending or descending, not %q", order)
	}
	for name, dest := range map[string]*int{"startIndex": &q.Start, "count": &q.Count} {
		text := v.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return q, invalidScim("%s must be a number, not %q", name, text)
		}
		*dest = n
	}
	// SCIM: values below the smallest are read as the smallest.
	q.Start, q.Count = max(1, q.Start), min(max(0, q.Count), maxCount)
	return q, nil
}

func badFilter(err error) error {
	return fault.Wrap(err, fault.BadRequest, "Invalid filter expression: %v", err).WithKind("invalid_scim_resource")
}

// listFault converts the store's error for a bad filter or sort attribute to a
// client error.
func listFault(err error) error {
	var (
		attribute *scim.AttributeError
		value     *scim.ValueError
	)
	if errors.As(err, &attribute) {
		return badFilter(attribute)
	}
	if errors.As(err, &value) {
		return badFilter(value)
	}
	return err
}

// list responds with a page of what load returns.
func list[T any](w http.ResponseWriter, r *http.Request, load func(context.Context, Query) ([]*T, int, error),
	body func(*T) map[string]any,
) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	page, total, err := load(r.Context(), q)
	if err != nil {
		return listFault(err)
	}
	out := make([]map[string]any, 0, len(page))
	for _, item := range page {
		out = append(out, body(item))
	}
	writeList(w, r, q, total, out)
	return nil
}

// writeList responds with a page, reduced to the requested attributes.
func writeList(w http.ResponseWriter, r *http.Request, q Query, total int, resources []map[string]any) {
	if only := splitWords(r.URL.Query().Get("attributes")); len(only) > 0 {
		for i, res := range resources {
			resources[i] = cut(res, only)
		}
	}
	writePage(w, q, total, resources)
}

func writePage(w http.ResponseWriter, q Query, total int, resources any) {
	web.WriteJSON(w, http.StatusOK, map[string]any{
		"resources": resources, "startIndex": q.Start, "itemsPerPage": q.Count, "totalResults": total,
		"schemas": []string{"urn:scim:schemas:core:1.0"},
	})
}

// cut keeps the named attributes. A dotted name keeps the whole first part.
func cut(res map[string]any, only []string) map[string]any {
	out := map[string]any{}
	for name, v := range res {
		if slices.ContainsFunc(only, func(o string) bool {
			first, _, _ := strings.Cut(o, ".")
			return strings.EqualFold(first, name)
		}) {
			out[name] = v
		}
	}
	return out
}

// scimTime is a moment as SCIM writes it.
func scimTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func scimMeta(version int, created, modified time.Time) map[string]any {
	return map[string]any{"version": version, "created": scimTime(created), "lastModified": scimTime(modified)}
}

// expectedVersion reads If-Match. UAA demands it for PUT; "*" means any.
func expectedVersion(r *http.Request) (version int, any bool, err error) {
	text := strings.Trim(strings.TrimPrefix(r.Header.Get("If-Match"), "W/"), `"`)
	switch text {
	case "":
		return 0, false, invalidScim("Missing If-Match for %s", r.Method)
	case "*":
		return 0, true, nil
	}
	version, err = strconv.Atoi(text)
	if err != nil {
		return 0, false, invalidScim("Invalid If-Match: %q is not a version", text)
	}
	return version, false, nil
}

// matchVersion rejects an update of a resource that changed meanwhile.
func matchVersion(r *http.Request, have int) error {
	want, anyVersion, err := expectedVersion(r)
	if err != nil {
		return err
	}
	if !anyVersion && want != have {
		return fault.New(fault.PreconditionFailed, "The resource was changed: its version is %d, not %d. Read it again.",
			have, want).
			WithKind("scim_resource_conflict")
	}
	return nil
}
