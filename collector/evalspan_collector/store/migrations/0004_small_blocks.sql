-- Smaller compressed blocks where single runs are read: the default of 64 kB to 1 MB makes a point read unpack a
-- hundred times what it wants, in each column. Parts written before keep theirs until they are merged.

ALTER TABLE runs MODIFY SETTING min_compress_block_size = 8192, max_compress_block_size = 65536;
ALTER TABLE steps MODIFY SETTING min_compress_block_size = 8192, max_compress_block_size = 65536;
ALTER TABLE scores MODIFY SETTING min_compress_block_size = 8192, max_compress_block_size = 65536;
ALTER TABLE outcomes MODIFY SETTING min_compress_block_size = 8192, max_compress_block_size = 65536;
