// Package openapitest compares HTTP responses with an OpenAPI 3.1 description, for
// tests of APIs. The schemas of OpenAPI 3.1 are JSON Schema.
//
// The end-to-end tests check that the descriptions are valid, with another
// implementation.
//
// Imports: github.com/santhosh-tekuri/jsonschema/v6, go.yaml.in/yaml/v2.
package openapitest
