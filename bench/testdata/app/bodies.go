package main

import (
	"crypto/sha1" //nolint:gosec // RFC 6455 asks for it
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// answer writes n bytes, in chunks without a length if chunked.
func answer(w http.ResponseWriter, n int, chunked bool) {
	const most = 64 << 10
	size := most
	if chunked {
		size = most / 8
	} else {
		w.Header().Set("Content-Length", strconv.Itoa(n))
	}
	for chunk := make([]byte, size); n > 0; n -= len(chunk) {
		_, _ = w.Write(chunk[:min(n, len(chunk))])
		if chunked {
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// call answers a unary call of gRPC with its own message.
func call(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	_, _ = io.Copy(w, r.Body)
	w.Header().Set("Grpc-Status", "0")
}

// echo sends the frames of a WebSocket back.
func echo(w http.ResponseWriter, r *http.Request) error {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as above
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: "+base64.StdEncoding.EncodeToString(sum[:])+"\r\n\r\n"); err != nil {
		return err
	}
	frame := make([]byte, 0, 4<<10)
	for {
		var head [8]byte
		if _, err := io.ReadFull(buffered, head[:2]); err != nil {
			return err
		}
		size := int(head[1] & 0x7f)
		if size == 126 {
			if _, err := io.ReadFull(buffered, head[2:4]); err != nil {
				return err
			}
			size = int(binary.BigEndian.Uint16(head[2:4]))
		} else if size == 127 {
			return errors.New("a frame that is too large")
		}
		var mask [4]byte
		if _, err := io.ReadFull(buffered, mask[:]); err != nil {
			return err
		}
		frame = append(frame[:0], head[0], byte(size))
		if size >= 126 {
			frame = append(frame[:1], 126, head[2], head[3])
		}
		at := len(frame)
		frame = append(frame, make([]byte, size)...)
		if _, err := io.ReadFull(buffered, frame[at:]); err != nil {
			return err
		}
		for i := range frame[at:] {
			frame[at+i] ^= mask[i%4]
		}
		if _, err := conn.Write(frame); err != nil {
			return err
		}
	}
}
