/* Small matrix products. Weights are packed in panels a few vectors wide; a tile of a few rows by one panel stays in registers. */

#if defined(__AVX512F__)
enum { BYTES = 64, ACROSS = 2, DOWN = 8 };
#elif defined(__AVX__)
enum { BYTES = 32, ACROSS = 3, DOWN = 4 };
#else
enum { BYTES = 16, ACROSS = 3, DOWN = 4 };
#endif
typedef REAL vector __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));
enum { LANES = BYTES / sizeof(REAL), COLUMNS = ACROSS * LANES };

/* How many columns a panel has; Python needs it to allocate panels. */
int64_t NAME(columns)(void) { return COLUMNS; }

/* Copy a matrix (depth, columns) of any strides into panels of `deep` rows, starting at row `row` and column `column`. */
void NAME(pack)(int64_t depth, int64_t columns, const REAL *from, int64_t from_row, int64_t from_column, REAL *panels,
                int64_t deep, int64_t row, int64_t column) {
    for (int64_t begin = 0; begin < depth; begin += LANES) { /* a few rows at a time, so that what is written stays in the cache */
        const int64_t end = begin + LANES < depth ? begin + LANES : depth;
        for (int64_t j = 0; j < columns; j++) {
            const int64_t at = column + j;
            REAL *to = panels + (at / COLUMNS * deep + row) * COLUMNS + at % COLUMNS;
            const REAL *own = from + j * from_column;
            for (int64_t k = begin; k < end; k++) to[k * COLUMNS] = own[k * from_row];
        }
    }
}

static inline int64_t padded(int64_t columns) { return (columns + COLUMNS - 1) / COLUMNS * COLUMNS; }

/* c = a b for `rows` ≤ DOWN rows of a (·, depth) and one panel b (depth, COLUMNS). Inlined, so that rows is a constant. */
static inline __attribute__((always_inline)) void tile(const int rows, int64_t depth, const REAL *restrict a, int64_t a_row,
                                                       const REAL *restrict b, REAL *restrict c, int64_t c_row) {
    vector sum[DOWN][ACROSS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < ACROSS; v++) sum[r][v] = (vector){0};
    for (int64_t k = 0; k < depth; k++) {
        vector own[ACROSS];
#pragma GCC unroll 8
        for (int v = 0; v < ACROSS; v++) own[v] = *(const vector *)(b + k * COLUMNS + v * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const REAL factor = a[r * a_row + k];
#pragma GCC unroll 8
            for (int v = 0; v < ACROSS; v++) sum[r][v] += factor * own[v];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < ACROSS; v++) *(vector *)(c + r * c_row + v * LANES) = sum[r][v];
}

/* c (rows, c_row) = a (rows, depth) b, where b holds `columns` columns in panels; rows of c are as long as whole panels. */
static void product(int64_t rows, int64_t depth, int64_t columns, const REAL *a, int64_t a_row, const REAL *b, REAL *c, int64_t c_row) {
    for (int64_t j = 0; j < columns; j += COLUMNS, b += depth * COLUMNS) {
        int64_t r = 0;
        for (; r + DOWN <= rows; r += DOWN) tile(DOWN, depth, a + r * a_row, a_row, b, c + r * c_row + j, c_row);
        const REAL *last = a + r * a_row;
        REAL *to = c + r * c_row + j;
        switch (rows - r) {
        case 1: tile(1, depth, last, a_row, b, to, c_row); break;
        case 2: tile(2, depth, last, a_row, b, to, c_row); break;
        case 3: tile(3, depth, last, a_row, b, to, c_row); break;
#if defined(__AVX512F__)
        case 4: tile(4, depth, last, a_row, b, to, c_row); break;
        case 5: tile(5, depth, last, a_row, b, to, c_row); break;
        case 6: tile(6, depth, last, a_row, b, to, c_row); break;
        case 7: tile(7, depth, last, a_row, b, to, c_row); break;
#endif
        }
    }
}
