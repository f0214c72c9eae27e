package openapitest

import (
	"net/http"
	"strings"
	"testing"
)

const description = `
openapi: 3.1.0
info: {title: t, version: "1"}
paths:
  /things/{id}:
    get:
      responses:
        200:
          description: ok
          headers:
            X-Count: {required: true, schema: {type: integer}}
          content:
            application/json: {schema: {$ref: "#/components/schemas/Thing"}}
        4XX: {$ref: "#/components/responses/Error"}
  /things/all:
    get: {responses: {default: {description: none}}}
components:
  responses:
    Error:
      description: error
      content: {text/plain: {schema: {type: string, pattern: "^no"}}}
  schemas:
    Thing:
      type: object
      required: [name]
      additionalProperties: false
      properties:
        name: {type: string}
        made: {type: [string, "null"], format: date-time}
        shape: {$ref: "#/components/schemas/Shape"}
    Shape:
      oneOf: [{$ref: "#/components/schemas/Round"}, {$ref: "#/components/schemas/Flat"}]
      discriminator: {propertyName: kind, mapping: {round: "#/components/schemas/Round", flat: "#/components/schemas/Flat"}}
    Round: {type: object, properties: {kind: {type: string}, radius: {type: number}}}
    Flat: {type: object, required: [side]}
`

func TestCheck(t *testing.T) {
	t.Parallel()
	d, err := Parse([]byte(description), nil)
	if err != nil {
		t.Fatal(err)
	}
	if o := d.Find("GET", "/things/all"); o == nil || o.Path != "/things/all" {
		t.Errorf("GET /things/all is %v, want the path without a parameter", o)
	}
	for _, unknown := range [][2]string{{"POST", "/things/1"}, {"GET", "/things/1/"}, {"GET", "/things/"},
		{"GET", "/thing"}} {
		if o := d.Find(unknown[0], unknown[1]); o != nil {
			t.Errorf("%v is described as %s %s, want not at all", unknown, o.Method, o.Path)
		}
	}
	o := d.Find("GET", "/things/1")
	const json, text = "application/json; charset=utf-8", "text/plain"
	for _, test := range []struct {
		status            int
		kind, count, body string
		want              string // part of the error; "" means none
	}{
		{200, json, "1", `{"name":"a"}`, ""},
		{200, json, "1", `{"name":"a","made":null}`, ""},
		{200, json, "1", `{"name":"a","made":"2026-01-02T03:04:05Z","shape":{"kind":"round"}}`, ""},
		{200, json, "1", `{"name":"a","shape":{"kind":"flat","side":1}}`, ""},
		{200, json, "1", `{"name":"a","shape":{"kind":"flat"}}`, "side"},
		{200, json, "1", `{"name":"a","shape":{"kind":"odd"}}`, "kind"},
		{200, json, "1", `{"name":"a","shape":{}}`, "kind"},
		{200, json, "1", `{"name":"a","made":"today"}`, "made"},
		{200, json, "1", `{"name":1}`, "name"},
		{200, json, "1", `{}`, "name"},
		{200, json, "1", `{"name":"a","other":1}`, "other"},
		{200, json, "1", `{"name"`, "EOF"},
		{200, json, "", `{"name":"a"}`, "X-Count is missing"},
		{200, json, "many", `{"name":"a"}`, "X-Count"},
		{200, text, "1", `{"name":"a"}`, "content type"},
		{404, text, "", "no such thing", ""},
		{404, text, "", "gone", "pattern"},
		{500, text, "", "no", "status 500"},
	} {
		h := http.Header{"Content-Type": {test.kind}}
		if test.count != "" {
			h.Set("X-Count", test.count)
		}
		err := o.Check(test.status, h, []byte(test.body))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d %s %s: error is %v, want %q", test.status, test.kind, test.body, err, test.want)
		}
	}
}
