package proxyheader

// Length is length.
var Length = length
