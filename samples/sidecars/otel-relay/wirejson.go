package main

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// names are the members of a request in JSON, by signal: of its entries, of the scopes
// in an entry, and of the items in a scope.
var names = map[string][3]string{
	"traces": {"resourceSpans", "scopeSpans", "spans"}, "metrics": {"resourceMetrics", "scopeMetrics", "metrics"},
	"logs": {"resourceLogs", "scopeLogs", "logRecords"},
}

// object is a JSON object whose members are kept as they are written.
type object = map[string]json.RawMessage

// member decodes a member of an object, if it exists.
func member(of object, name string, into any) error {
	if len(of[name]) == 0 {
		return nil
	}
	if err := json.Unmarshal(of[name], into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// entriesOf returns the entries of a request in JSON.
func entriesOf(signal string, request []byte) ([]json.RawMessage, error) {
	var top object
	if err := json.Unmarshal(request, &top); err != nil {
		return nil, err
	}
	var entries []json.RawMessage
	err := member(top, names[signal][0], &entries)
	return entries, err
}

// addJSON is addProtobuf for requests in JSON. It returns the entries one by one.
func addJSON(signal string, request []byte, all []attribute) (out []byte, items int, err error) {
	entries, err := entriesOf(signal, request)
	if err != nil {
		return nil, 0, err
	}
	for i := range entries {
		var entry, resource object
		var scopes []object
		if err := json.Unmarshal(entries[i], &entry); err != nil {
			return nil, 0, err
		}
		if err := member(entry, names[signal][1], &scopes); err != nil {
			return nil, 0, err
		}
		for _, scope := range scopes {
			var found []json.RawMessage
			if err := member(scope, names[signal][2], &found); err != nil {
				return nil, 0, err
			}
			items += len(found)
		}
		if err := member(entry, "resource", &resource); err != nil {
			return nil, 0, err
		}
		if resource == nil {
			resource = object{}
		}
		if err := addToJSON(resource, all); err != nil {
			return nil, 0, err
		}
		if entry == nil {
			entry = object{}
		}
		if entry["resource"], err = json.Marshal(resource); err != nil {
			return nil, 0, err
		}
		if entries[i], err = json.Marshal(entry); err != nil {
			return nil, 0, err
		}
	}
	return joinJSON(signal, entries), items, nil
}

// addToJSON adds attributes to a resource.
func addToJSON(resource object, all []attribute) error {
	var list []json.RawMessage
	if err := member(resource, "attributes", &list); err != nil {
		return err
	}
	type text struct {
		String *string `json:"stringValue,omitempty"`
	}
	type keyed struct {
		Key   string `json:"key"`
		Value text   `json:"value"`
	}
	has := map[string]string{}
	at := map[string]int{}
	for i, raw := range list {
		var a keyed
		if err := json.Unmarshal(raw, &a); err != nil {
			return fmt.Errorf("an attribute: %w", err)
		}
		has[a.Key], at[a.Key] = "not text", i
		if a.Value.String != nil {
			has[a.Key] = *a.Value.String
		}
	}
	for _, a := range all {
		if !adds(a, has) {
			continue
		}
		raw, err := json.Marshal(keyed{a.key, text{&a.value}})
		if err != nil {
			return err
		}
		if i, replaced := at[a.key]; replaced {
			list[i] = raw
		} else {
			list = append(list, raw)
		}
	}
	raw, err := json.Marshal(list)
	if list != nil {
		resource["attributes"] = raw
	}
	return err
}

// joinJSON returns a request of entries.
func joinJSON(signal string, entries []json.RawMessage) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, `{%q:[`, names[signal][0])
	for i, e := range entries {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(e)
	}
	out.WriteString("]}")
	return out.Bytes()
}
