package openapitest

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Operation is a method of a path.
type Operation struct {
	Method string
	Path   string // with parameters in braces
	doc    *Document
	at     []string
}

// Check compares a response with the description: its status, headers, content type
// and body. A nil body is not compared.
func (o *Operation) Check(status int, header http.Header, body []byte) error {
	r := o.Response(status)
	if r == nil {
		return fmt.Errorf("the status %d is not described", status)
	}
	if err := r.checkHeaders(header); err != nil {
		return err
	}
	content, _ := r.node["content"].(Object)
	if body == nil || len(content) == 0 {
		return nil
	}
	s := r.Schema(header.Get("Content-Type"))
	if s == nil {
		return fmt.Errorf("the content type %q is not described", header.Get("Content-Type"))
	}
	return s.Check(body)
}

// Response is a described response.
type Response struct {
	Status string // a number, 4XX, or default
	doc    *Document
	node   Object
	at     []string
}

// Response returns the response of a status: by its number, its class (4XX) or
// the default; nil if it is not described.
func (o *Operation) Response(status int) *Response {
	for _, key := range []string{strconv.Itoa(status), strconv.Itoa(status/100) + "XX", "default"} {
		if node, at := o.doc.follow(append(o.at[:len(o.at):len(o.at)], "responses", key)); node != nil {
			return &Response{key, o.doc, node, at}
		}
	}
	return nil
}

func (r *Response) checkHeaders(header http.Header) error {
	headers, _ := r.node["headers"].(Object)
	for name := range headers {
		node, at := r.doc.follow(append(r.at[:len(r.at):len(r.at)], "headers", name))
		value := header.Get(name)
		if value == "" {
			if node["required"] == true {
				return fmt.Errorf("the header %s is missing", name)
			}
			continue
		}
		s, err := r.doc.schema(append(at, "schema"))
		if err != nil {
			return err
		}
		if err := s.Validate(parameter(s, value)); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	return nil
}

// parameter returns a value with the type of its schema.
func parameter(s *jsonschema.Schema, text string) any {
	for s.Ref != nil {
		s = s.Ref
	}
	if s.Types != nil && slices.ContainsFunc(s.Types.ToStrings(), func(t string) bool {
		return t == "integer" ||
			t == "number" || t == "boolean"
	}) {
		if v, err := jsonschema.UnmarshalJSON(strings.NewReader(text)); err == nil {
			return v
		}
	}
	return text
}

// Schema is the schema of a body.
type Schema struct {
	// Node is the schema, with references inside.
	Node Object
	doc  *Document
	at   []string
	json bool
}

// Schema returns the schema of a content type; nil if that type is not described,
// an empty one if it is described without.
func (r *Response) Schema(contentType string) *Schema {
	kind, _, _ := mime.ParseMediaType(contentType)
	major, _, _ := strings.Cut(kind, "/")
	for _, key := range []string{kind, major + "/*", "*/*"} {
		media, at := r.doc.follow(append(r.at[:len(r.at):len(r.at)], "content", key))
		if media == nil {
			continue
		}
		s := &Schema{doc: r.doc, json: strings.HasSuffix(kind, "json")}
		s.Node, s.at = r.doc.follow(append(at, "schema"))
		return s
	}
	return nil
}

// Check compares a body with the schema.
func (s *Schema) Check(body []byte) error {
	if s.Node == nil {
		return nil
	}
	compiled, err := s.doc.schema(s.at)
	if err != nil {
		return err
	}
	var value any = string(body)
	if s.json {
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(body)); err != nil {
			return err
		}
	}
	return compiled.Validate(value)
}
