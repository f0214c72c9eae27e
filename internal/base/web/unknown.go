package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"ingot/internal/base/suggest"
)

// Limits of the warnings about unknown fields: responses with longer headers are
// refused by some clients and proxies.
const (
	maxUnknownNamed = 10
	maxUnknownName  = 60
	maxUnknownBytes = 4 << 10
)

// WarnUnknown adds a header to the response for each member of a JSON body that
// decoding it into the type of v ignores, also inside lists and maps. The values
// are percent-encoded like those of X-Cf-Warnings. Few of many are named, and long
// names are cut; the last warning then says how many more there are. There is no
// warning for readOnly fields: clients send a resource back as they got it.
func WarnUnknown(w http.ResponseWriter, header string, body []byte, v any, readOnly ...string) {
	found := unknownFields(nil, "", body, reflect.TypeOf(v))
	found = slices.DeleteFunc(found, func(f unknownField) bool { return slices.Contains(readOnly, f.path) })
	size := 0
	for i, f := range found {
		line := url.QueryEscape(f.warning())
		if size += len(line); i == maxUnknownNamed || size > maxUnknownBytes {
			w.Header().Add(header, url.QueryEscape(fmt.Sprintf("More unknown fields without effect: %d.", len(found)-i)))
			return
		}
		w.Header().Add(header, line)
	}
}

// unknownField is a member of a JSON object that the type for it does not have.
type unknownField struct {
	path  string
	close string // the known field with a similar name
}

func (f unknownField) warning() string {
	text := fmt.Sprintf("%q is not a field of this request and has no effect", f.path)
	if f.close != "" {
		return text + fmt.Sprintf("; did you mean %q?", f.close)
	}
	return text + "."
}

var (
	rawMessage  = reflect.TypeFor[json.RawMessage]()
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
)

// unknownFields appends the unknown fields of a JSON value below path. Values of
// another type than t have none: decoding them is an error that others report.
func unknownFields(found []unknownField, path string, raw json.RawMessage, t reflect.Type) []unknownField {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == rawMessage || reflect.PointerTo(t).Implements(unmarshaler) {
		return found
	}
	switch t.Kind() {
	case reflect.Slice:
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			for i, one := range list {
				found = unknownFields(found, fmt.Sprintf("%s[%d]", path, i), one, t.Elem())
			}
		}
	case reflect.Map, reflect.Struct:
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return found
		}
		fields, names := fieldsOf(t)
		for _, key := range slices.Sorted(maps.Keys(object)) {
			below := path + "." + cut(key)
			if path == "" {
				below = cut(key)
			}
			// The decoder ignores case too.
			switch of, known := fields[strings.ToLower(key)]; {
			case t.Kind() == reflect.Map:
				found = unknownFields(found, below, object[key], t.Elem())
			case known:
				found = unknownFields(found, below, object[key], of)
			default:
				found = append(found, unknownField{below, suggest.Closest(cut(key), names)})
			}
		}
	}
	return found
}

// fieldsOf returns the types of a struct's JSON fields by their names in lower
// case, and the names.
func fieldsOf(t reflect.Type) (map[string]reflect.Type, []string) {
	fields := map[string]reflect.Type{}
	var names []string
	if t.Kind() != reflect.Struct {
		return fields, nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "-" {
			continue
		}
		name = cmp.Or(name, f.Name)
		fields[strings.ToLower(name)] = f.Type
		names = append(names, name)
	}
	return fields, names
}

// cut returns the beginning of a long name.
func cut(name string) string {
	if utf8.RuneCountInString(name) <= maxUnknownName {
		return name
	}
	return string(bytes.Runes([]byte(name))[:maxUnknownName]) + "…"
}
