package client

// ReadBody reads a response of up to most bytes.
var ReadBody = readBody
